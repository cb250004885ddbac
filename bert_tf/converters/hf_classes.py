"""Classes of transformers for our tasks, by family."""

from bert_tf.converters import hf_variants

ENCODER = {"task": "encoder"}
MASKED_LM = {"task": "pretraining", "sentence_task": None}
LABELLED = ("classifier", "tagger", "span")


def _classes(name, lm_head, questions="qa_outputs."):
    """The rows that most families have.

    Args:
        name: how their names begin.
        lm_head: beginnings of the names of a masked-LM head's tensors.
        questions: the same of the head of questions.
    """
    return (
        (MASKED_LM, f"{name}ForMaskedLM", lm_head),
        (ENCODER, f"{name}Model", ()),
        ({"task": "classifier"}, f"{name}ForSequenceClassification", ("classifier.",)),
        ({"task": "tagger"}, f"{name}ForTokenClassification", ("classifier.",)),
        ({"task": "span"}, f"{name}ForQuestionAnswering", (questions,)),
    )


def _left_to_right(language_model, classifier, encoder):
    """The rows of models that predict the next token, and whose labels are those of the last."""
    return (({"task": "language_model"}, language_model, ("lm_head.",)),
            ({"task": "classifier"}, classifier, ("score.",)),
            (ENCODER, encoder, ()))


def _like_bert(name):
    """The rows of BERT and of what is read as one."""
    return (({"task": "pretraining", "sentence_task": "next_sentence"}, f"{name}ForPreTraining",
             ("cls.predictions.", "cls.seq_relationship.")),
            *_classes(name, ("cls.predictions.",)))


# Task, their class for it, and the beginnings of the names of its head's tensors.
MODELS = {
    "bert": _like_bert("Bert"),
    "roberta": _classes("Roberta", ("lm_head.",)),
    "xlm_roberta": _classes("XLMRoberta", ("lm_head.",)),
    "camembert": _classes("Camembert", ("lm_head.",)),
    "electra": (
        ({"task": "replaced_tokens", "generator": None}, "ElectraForPreTraining",
         ("discriminator_predictions.",)),
        *_classes("Electra", ("generator_predictions.",)),
    ),
    "albert": (
        ({"task": "pretraining", "sentence_task": "sentence_order"}, "AlbertForPreTraining",
         ("predictions.", "sop_classifier.")),
        *_classes("Albert", ("predictions.",)),
    ),
    "gpt": _left_to_right("OpenAIGPTLMHeadModel", "OpenAIGPTForSequenceClassification",
                          "OpenAIGPTModel"),
    "gpt2": _left_to_right("GPT2LMHeadModel", "GPT2ForSequenceClassification", "GPT2Model"),
    "distilbert": _classes("DistilBert", ("vocab_transform.",)),
    "mpnet": _classes("MPNet", ("lm_head.",)),
    "deberta_v1": _classes("Deberta", ("cls.predictions.",)),
    "deberta": _classes("DebertaV2", ("cls.predictions.",)),
    "modernbert": _classes("ModernBert", ("head.", "decoder."), "classifier."),
    # There is no class for questions; the classes of "New" are of files that came with their code.
    "gte": (*_classes("Gte", ("lm_head.",))[:-1], *_classes("New", ("lm_head.",))[:-1]),
    "jina_embeddings_v3": _classes("JinaEmbeddingsV3", ("lm_head.",)),
    "eurobert": _classes("EuroBert", ("lm_head.",))[:-1],  # neither here
    "mobilebert": _like_bert("MobileBert"),
    "ultrabert": _classes("Ultrabert", ("head.", "cls.")),
    "qwen3": _left_to_right("Qwen3ForCausalLM", "Qwen3ForSequenceClassification", "Qwen3Model"),
    "gemma3": _left_to_right("Gemma3ForCausalLM", "Gemma3TextForSequenceClassification",
                             "Gemma3TextModel"),
    # Encoders of whole models are read too; what has labels of texts there has a decoder.
    "t5": (*((ENCODER, name, ()) for name in (
               "T5EncoderModel", "MT5EncoderModel", "T5Model", "MT5Model",
               "T5ForConditionalGeneration", "MT5ForConditionalGeneration",
               "T5WithLMHeadModel")),
           ({"task": "tagger"}, "T5ForTokenClassification", ("classifier.",))),
    # Neither here; the last is of files that came with code of their own.
    "nomic_bert": (*_classes("NomicBert", ("cls.predictions.",))[:-1],
                   (MASKED_LM, "NomicBertForPreTraining", ("cls.predictions.",))),
}
# The same of folders that are read as another family; BigBird's head of questions has layers.
READ_ONLY = {"ernie": _like_bert("Ernie"), "big_bird": _like_bert("BigBird")[:-1],
             "data2vec-text": _classes("Data2VecText", ("lm_head.",))}
# And of those that are a family with other values.
VARIANTS = {"megatron-bert": _like_bert("MegatronBert"),
            "xlm-roberta-xl": _classes("XLMRobertaXL", ("lm_head.",)),
            "roformer": _classes("RoFormer", ("cls.predictions.",)),
            # Of masked LMs the encoder is read.
            "rembert": (*_classes("RemBert", ())[1:], (ENCODER, "RemBertForMaskedLM", ()))}


def classes_read(model_type, family):
    """The rows of a `config.json` with this `model_type`, of a family."""
    return (READ_ONLY | VARIANTS).get(model_type, MODELS[family])


def classes_of(config):
    """The rows of a `ModelConfig` to be written, of a family of `MODELS`."""
    return VARIANTS.get(hf_variants.type_of(config), MODELS[config.family])
