"""Encoders whose attention knows distances are exported like BERT: same numbers, servable ops."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tiny_model import SEQ_LENGTH, TEXTS, Caller, config_of, only_signatures, word_piece

from bert_tf.models.families import build_encoder
from bert_tf.saved_model import save
from bert_tf.saved_model.ops import unservable_ops
from bert_tf.saved_model.save import export_saved_model
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tokenization.packing import pack

pytestmark = pytest.mark.graphs_improved

OPTIONS = {"mpnet": {"max_position_embeddings": SEQ_LENGTH + 1}, "deberta": {},
           "deberta_v1": {"position_buckets": SEQ_LENGTH // 2},
           "modernbert": {"num_hidden_layers": 2, "local_attention": 4}, "nomic_bert": {},
           "gte": {"rotary_factor": 1.5}, "eurobert": {"num_key_value_heads": 1},
           "jina_embeddings_v3": {},
           "ultrabert": {"num_hidden_layers": 3, "num_key_value_heads": 1, "local_attention": 4},
           "mobilebert": {"embedding_size": 8, "intra_bottleneck_size": 8},
           "gpt2": {}, "t5": {"attention_head_size": 6, "feed_forward": "gated"},
           "qwen3": {"num_key_value_heads": 1, "attention_head_size": 6},
           "gemma3": {"num_key_value_heads": 1, "attention_head_size": 6, "score_size": 4,
                      "num_hidden_layers": 2, "local_attention": 4, "global_attention_every": 2,
                      "first_global_layer": 1}}


@pytest.mark.parametrize(("family", "dtype", "tolerance"), [
    pytest.param(family, dtype, tolerance, marks=[pytest.mark.long] * (
        (family, dtype) != ("deberta", "float32")))
    for dtype, tolerance in (("float32", 1e-4), ("bfloat16", 0.2)) for family in OPTIONS])
def test_an_export_gives_what_the_model_gives(family, dtype, tolerance, tmp_path):
    tokenizer = word_piece()
    config = config_of(tokenizer, family=family, initializer_range=0.2, **OPTIONS[family])
    folder = str(tmp_path / "model")
    build_encoder(config, seed=7).save_pretrained(folder, tokenizer)
    with (only_signatures("embed", "encode", "encode_ids"),
          mock.patch.object(save, "verify")):  # which compares as this test does
        version = export_saved_model(folder, str(tmp_path / "served"), dtype=dtype)
    assert unservable_ops(version) == []
    served = Caller(version)
    pieces = [tokenizer.tokenize(tf.constant(TEXTS))]
    inputs = pack(tokenizer.vocabulary, pieces, SEQ_LENGTH, fixed=False)
    inputs = {name: value.numpy() for name, value in inputs.items()}
    real = inputs["input_mask"][..., None]
    wanted = from_pretrained(folder, dtype="float32")(inputs)["sequence_output"] * real
    for answer in (served("encode", text=TEXTS), served("encode_ids", **inputs)):
        assert np.abs(answer["sequence_output"] - wanted).max() < tolerance
