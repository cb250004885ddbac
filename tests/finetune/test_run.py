"""What a run tells of its train examples."""

import types

import numpy as np

from bert_tf.finetune.run import FinetuningRun
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary


def test_a_vocabulary_that_does_not_know_the_text_is_told(capsys):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"])
    for ids, told in (([2, 1, 5, 5, 5, 3], "note: 25 % of the train tokens are unknown"),
                      ([2, 1, *[5] * 9, 3], "")):
        features = types.SimpleNamespace(
            rows={"input_word_ids": types.SimpleNamespace(values=np.array(ids))}, truncated=0)
        run = FinetuningRun(None, None, None)
        run.train, run.train_features, run.dev, run.test = [], None, [], None
        run.start = types.SimpleNamespace(tokenizer=types.SimpleNamespace(vocabulary=vocabulary))
        run.type = types.SimpleNamespace(
            features=lambda *_, made=features, **options: made, truncation=lambda _: None,
            features_to_predict=lambda *_, made=features: made)
        run.features(types.SimpleNamespace(preprocessor=None))
        out = capsys.readouterr().out
        assert told in out and ("unknown" in out) == bool(told)
