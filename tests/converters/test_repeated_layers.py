"""A model of twice the layers: weights by name, and what the first half of it computes."""

import numpy as np
import pytest

from bert_tf.config import ModelConfig
from bert_tf.converters.own_folder import own_folder
from bert_tf.models.families import build_encoder
from bert_tf.tasks.pretrained import from_pretrained
from bert_tf.tasks.pretraining.masked_lm import Pretrainer

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 12}


@pytest.mark.parametrize("options", [
    *(pytest.param(options, marks=pytest.mark.long) for options in (
        {"family": "bert"}, {"family": "albert"})),
    {"family": "modernbert", "local_attention": 0}],
    ids=lambda options: options["family"])
def test_layers_are_repeated(options, tmp_path, capsys):
    model = Pretrainer(ModelConfig.from_dict({**SIZES, **options}), None, seed=3)
    random = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(random.normal(size=variable.shape))
    model.save_pretrained(str(tmp_path / "model"))
    folder = own_folder(str(tmp_path / "model"), str(tmp_path / "deeper"), stack=2)
    assert folder == str(tmp_path / "deeper")
    told = "its 2 layers, repeated 2 times, begin as the new model's 4: " + (
        "weights shared in 1 group, as they were" if options["family"] == "albert"
        else "layer i as layer i modulo 2")
    assert told in capsys.readouterr().out
    assert own_folder(str(tmp_path / "model"), "nowhere") == str(tmp_path / "model")

    deeper = from_pretrained(folder)
    assert deeper.config.num_hidden_layers == 4 and deeper.fresh_variables == ()
    old = {variable.path: variable.numpy() for variable in model.weights}
    for variable in deeper.weights:
        source = variable.path
        for layer in range(2, 4):
            source = source.replace(f"/layer_{layer}/", f"/layer_{layer % 2}/")
        right = old.get(source, np.ones(8))  # the LayerNorm that a first pre-LN block lacks
        np.testing.assert_array_equal(variable.numpy(), right, err_msg=variable.path)
    both = [from_pretrained(path, "encoder", encoder_outputs=True)
            for path in (tmp_path / "model", folder)]
    ids = random.integers(1, 20, (2, 7))
    batch = {"input_word_ids": ids, "input_mask": np.ones_like(ids),
             "input_type_ids": np.zeros_like(ids)}
    shallow, deep = (encoder(batch)["encoder_outputs"] for encoder in both)
    assert len(deep) == 2 * len(shallow) == 4
    np.testing.assert_allclose(deep[0], shallow[0], atol=1e-6)
    assert isinstance(both[0], type(build_encoder(model.config)))
