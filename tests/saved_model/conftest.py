"""A tiny model with random weights and a small vocabulary, and its exports."""

import pytest

TEXTS = ["The quick brown fox [MASK] over the lazy dog.", "", "안녕하세요, [MASK] ㅋㅋ 😀 [MASK]!",
         "Café CAFÉ", "a [MASK] " * 40]
SEQ_LENGTH = 24
TOP_K = 3
WORDS = ("the quick brown fox jumps over lazy dog . , ! a café cafe The Caf ##é ##C 안녕 ##하세요 ㅋ ##ㅋ 😀 "
         "C ##A ##F ##É t h e ##h ##e").split()


def save_model(folder, next_sentence=True, lower_case=True, words=WORDS):
    """A model folder with random weights, wide enough that answers differ."""
    from bert_tf.config import ModelConfig
    from bert_tf.models.pretrained import save_pretrained
    from bert_tf.tasks.pretraining import Pretrainer
    from bert_tf.tokenization.tokenizer import Tokenizer
    from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary

    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]), lower_case=lower_case)
    config = ModelConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=SEQ_LENGTH,
        initializer_range=0.5)
    save_pretrained(folder, Pretrainer(config, next_sentence, seed=7), config, tokenizer)
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Lower-casing, with a next-sentence head."""
    return save_model(str(tmp_path_factory.mktemp("saved_model") / "model"))


@pytest.fixture(scope="session")
def cased_folder(tmp_path_factory):
    """Case is kept, no next-sentence head."""
    return save_model(str(tmp_path_factory.mktemp("saved_model") / "cased"), next_sentence=False,
                      lower_case=False)


@pytest.fixture(scope="session")
def version(model_folder, tmp_path_factory):
    """The exported `model_folder`."""
    from bert_tf.saved_model.save import export_saved_model

    return export_saved_model(model_folder, str(tmp_path_factory.mktemp("export") / "bert"),
                              top_k=TOP_K)


@pytest.fixture(scope="session")
def cased_version(cased_folder, tmp_path_factory):
    """The exported `cased_folder`, computing in bfloat16."""
    from bert_tf.saved_model.save import export_saved_model

    return export_saved_model(cased_folder, str(tmp_path_factory.mktemp("export") / "cased"),
                              dtype="bfloat16")


@pytest.fixture(scope="session")
def call(version):
    """`call(signature, **inputs)` -> dict of arrays; strings are bytes."""
    import tensorflow as tf

    return caller(tf.saved_model.load(version))


def caller(reloaded):
    """Call a loaded SavedModel's signatures with lists."""
    import tensorflow as tf

    def call(signature, **inputs):
        function = reloaded.signatures[signature]
        tensors = {name: tf.constant(value, function.structured_input_signature[1][name].dtype)
                   for name, value in inputs.items()}
        return {name: value.numpy() for name, value in function(**tensors).items()}

    return call
