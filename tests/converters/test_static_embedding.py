"""A table of vectors goes to sentence-transformers and comes back, with the same vectors."""

import json

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file

from bert_tf.config import ModelConfig
from bert_tf.converters import ours, sentence_transformers
from bert_tf.errors import UsageError
from bert_tf.tasks.base.text_preprocessor import TextPreprocessor
from bert_tf.tasks.embedding.model import SentenceEmbedder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tokenization.tokenizer import Tokenizer
from bert_tf.tokenization.vocabulary import Vocabulary

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sun", "##ny", "rain", "day", ".", "비",
          "가"]
TEXTS = ["Sunny day.", "rain rain RAIN snow", "비 가", "", "day " * 600]


@pytest.fixture
def saved(tmp_path):
    """A folder of a static embedder with seeded vectors."""
    tokenizer = Tokenizer(Vocabulary(TOKENS), lower_case=True)
    config = ModelConfig.from_dict({"family": "static", "vocab_size": len(TOKENS), "padding_id": 0,
                                    "hidden_size": 6, "max_position_embeddings": 1024})
    model = SentenceEmbedder(config, seed=3, pooling="mean", mask_specials=True,
                             preprocessor=TextPreprocessor(tokenizer, 1024))
    [table] = model.encoder.weights
    table.assign(np.random.default_rng(1).normal(size=table.shape))
    model.save_pretrained(str(tmp_path / "static"))
    return str(tmp_path / "static")


def test_there_and_back(saved, tmp_path):
    folder = tmp_path / "theirs"
    assert sentence_transformers.write(ours.read(saved), str(folder)) == [
        "seq_length=1024 (theirs reads all of a text)"]
    # What their module computes: a mean over the tokens that are not special, 0 of none.
    [table] = load_file(folder / "model.safetensors").values()
    encode = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode
    ids = [encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert len(ids[-1]) == 600 and ids[3] == []
    expected = [table[found].mean(0) if found else np.zeros(6) for found in ids]
    np.testing.assert_allclose(from_pretrained(saved).embed(TEXTS), expected, atol=1e-5)

    (folder / "1_Normalize").mkdir()
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*modules, {
        "idx": 1, "name": "1", "path": "1_Normalize",
        "type": "sentence_transformers.models.Normalize"}]))
    (folder / "checksums.json").unlink()
    read = sentence_transformers.read(str(folder))
    assert sentence_transformers.write(read, str(tmp_path / "again")) == []
    ours.write(read, str(tmp_path / "back"))
    back = from_pretrained(str(tmp_path / "back")).embed(TEXTS)
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(back, expected / np.where(lengths > 0, lengths, 1), atol=1e-5)


def test_what_is_no_static_embedding(saved, tmp_path):
    checkpoint = ours.read(saved)
    checkpoint.task["pooling"] = "max"
    with pytest.raises(UsageError, match="pooling='max' cannot be written to a folder of sent"):
        sentence_transformers.write(checkpoint, str(tmp_path / "max"))
    assert not (tmp_path / "max").exists()
    folder = tmp_path / "theirs"
    sentence_transformers.write(ours.read(saved), str(folder))
    table = load_file(folder / "model.safetensors")["embedding.weight"]
    for tensors, message in (({"embedding.weight": table, "mapping": table}, "mapping"),
                             ({"embedding.weight": table[0]}, "expected"),
                             ({"vectors": table}, "embedding.weight")):
        save_file(tensors, folder / "model.safetensors")
        (folder / "checksums.json").unlink(missing_ok=True)
        with pytest.raises(UsageError, match=message):
            sentence_transformers.read(str(folder))
    save_file({"embeddings": table}, folder / "model.safetensors")  # as of model2vec
    [[_, read]] = sentence_transformers.read(str(folder)).tensors.items()
    np.testing.assert_array_equal(read, table)
    save_file({"embedding.weight": table}, folder / "model.safetensors")
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.enable_truncation(4)
    library.save(str(folder / "tokenizer.json"))
    with pytest.raises(UsageError, match="tokenizer.json: truncation=.*'max_length': 4"):
        sentence_transformers.read(str(folder))
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(UsageError, match="no tokenizer"):
        sentence_transformers.read(str(folder))
