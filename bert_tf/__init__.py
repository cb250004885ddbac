"""BERT on Keras 3 and TensorFlow: from raw text to a served model.

Importing this package is light: TensorFlow and Keras load when the first name below is used.

    import bert_tf
    config = bert_tf.preset("bert", "tiny", vocab_size=8000)
    encoder = bert_tf.build_encoder(config)
"""

import importlib
import os
import warnings

__version__ = "0.1.0"

# Keras reads this once, at its first import; every layer here is written for TensorFlow.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

PUBLIC = {
    "BertTfError": "bert_tf.errors",
    "ModelConfig": "bert_tf.config",
    "preset": "bert_tf.presets",
    "build_encoder": "bert_tf.models.families",
    "Pretrainer": "bert_tf.tasks.pretraining.masked_lm",
    "ReplacedTokens": "bert_tf.tasks.pretraining.replaced_tokens",
    "LanguageModel": "bert_tf.tasks.pretraining.language_model",
    "generate": "bert_tf.tasks.pretraining.generation",
    "layer_distances": "bert_tf.models.distances",
    "Classifier": "bert_tf.tasks.classification.model",
    "Ranker": "bert_tf.tasks.ranking.model",
    "QuestionAnswering": "bert_tf.tasks.question_answering.model",
    "TokenClassifier": "bert_tf.tasks.token_classification.model",
    "SentenceEmbedder": "bert_tf.tasks.embedding.model",
    "SparseEmbedder": "bert_tf.tasks.embedding.sparse.model",
    "MultiVectorEmbedder": "bert_tf.tasks.embedding.multi_vector.model",
    "EmbeddingLoss": "bert_tf.tasks.embedding.options",
    "SparseLoss": "bert_tf.tasks.embedding.sparse.options",
    "MultiVectorLoss": "bert_tf.tasks.embedding.multi_vector.options",
    "query_batches": "bert_tf.tasks.embedding.features",
    "read_queries": "bert_tf.tasks.base.query_files",
    "learn_vocab": "bert_tf.learn_vocab",
    "LearnVocabConfig": "bert_tf.learn_vocab",
    "create_examples": "bert_tf.create_data",
    "PretrainingInput": "bert_tf.data.pretraining_input",
    "CreateDataConfig": "bert_tf.data.options",
    "pretrain": "bert_tf.pretrain",
    "PretrainConfig": "bert_tf.pretrain.config",
    "adapt": "bert_tf.adapt",
    "AdaptConfig": "bert_tf.adapt.config",
    "finetune": "bert_tf.finetune",
    "FinetuneConfig": "bert_tf.finetune.config",
    "distill": "bert_tf.distill",
    "DistillConfig": "bert_tf.distill.config",
    "evaluate": "bert_tf.evaluate",
    "EvaluateConfig": "bert_tf.evaluate.config",
    "predict": "bert_tf.predict",
    "PredictConfig": "bert_tf.predict.config",
    "Predictor": "bert_tf.predictor",
    "export": "bert_tf.export",
    "ExportConfig": "bert_tf.export",
    "mine_negatives": "bert_tf.mine_negatives",
    "MineNegativesConfig": "bert_tf.mine_negatives",
    "build_index": "bert_tf.index",
    "IndexConfig": "bert_tf.index",
    "open_index": "bert_tf.index",
    "VectorCode": "bert_tf.retrieval.codes",
    "learn_term_weights": "bert_tf.data.term_weights",
    "TextPreprocessor": "bert_tf.tasks.base.text_preprocessor",
    "QuestionPreprocessor": "bert_tf.tasks.question_answering.preprocessor",
    "WordPreprocessor": "bert_tf.tasks.token_classification.preprocessor",
    "text_batches": "bert_tf.tasks.base.text_batches",
    "Tokenizer": "bert_tf.tokenization.tokenizer",
    "load_tokenizer": "bert_tf.tokenization.load",
    "pack": "bert_tf.tokenization.packing",
    "analyse": "bert_tf.tokenization.morphemes",
    "original_offsets": "bert_tf.tokenization.morphemes",
    "Vocabulary": "bert_tf.tokenization.vocabulary",
    "AdamW": "bert_tf.training.optimizers",
    "Lamb": "bert_tf.training.optimizers",
    "Lion": "bert_tf.training.optimizers",
    "Muon": "bert_tf.training.optimizers",
    "WarmupLinearDecay": "bert_tf.training.schedules",
    "WarmupCosineDecay": "bert_tf.training.schedules",
    "WarmupStableDecay": "bert_tf.training.schedules",
    "from_pretrained": "bert_tf.load",
    "load_model": "bert_tf.load",
    "save_pretrained": "bert_tf.models.pretrained",
    "from_live": "bert_tf.converters.live",
    "to_live": "bert_tf.converters.live",
}
# Names until 0.1, which give the present ones with a DeprecationWarning.
_FORMER = {"Span": "QuestionAnswering", "Tagger": "TokenClassifier",
           "TextReader": "TextPreprocessor", "QuestionReader": "QuestionPreprocessor",
           "WordReader": "WordPreprocessor"}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name):
    if name in _FORMER:
        warnings.warn(f"bert_tf.{name} is now bert_tf.{_FORMER[name]}", DeprecationWarning,
                      stacklevel=2)
        name = _FORMER[name]
    if name not in PUBLIC:
        raise AttributeError(f"module 'bert_tf' has no attribute '{name}'")
    module = importlib.import_module(PUBLIC[name])
    # A command is the module of its name, which can be called: bert_tf.pretrain(train_steps=100).
    return module if module.__name__ == f"bert_tf.{name}" else getattr(module, name)


def import_public():
    """Import the modules of all public names, whose classes Keras then finds in files."""
    for module in sorted(set(PUBLIC.values())):
        importlib.import_module(module)


def __dir__():
    return sorted(__all__)
