"""What taking a run folder must not delete."""

import pytest
from harness import mirrored

from bert_tf.config import ModelConfig
from bert_tf.errors import UsageError
from bert_tf.pretrain.config import PretrainConfig
from bert_tf.pretrain.run import PretrainingRun
from bert_tf.training.config import TrainConfig


@pytest.mark.parametrize("name, deleted", [
    ("model_config.json", True), ("model/model_config.json", True), ("own.json", False)])
def test_a_configuration_in_the_folder_is_never_deleted(tmp_path, name, deleted):
    config = ModelConfig.from_dict({"family": "bert", "vocab_size": 50, "hidden_size": 8,
                                    "num_hidden_layers": 1, "num_attention_heads": 1,
                                    "intermediate_size": 8})
    text, path = tmp_path / "a.txt", tmp_path / "run" / name
    text.write_text("some text")
    path.parent.mkdir(parents=True)
    config.save(str(path))
    options = PretrainConfig(input=str(text), output_dir=str(tmp_path / "run"), config=str(path),
                             overwrite=True, discard_checkpoints=True)
    run = PretrainingRun(options, config, TrainConfig(batch_size=1), mirrored(1))
    if deleted:
        with pytest.raises(UsageError, match=f"--config {path} is where .* deletes files; try a "):
            run.claim([str(text)])
    else:
        run.claim([str(text)])
    assert path.exists()
