"""What a user would try first: TF-IDF of n-grams and logistic regression, by scikit-learn."""

import time


def learn(train, n, unit="word", class_weight=None):
    """Learn from examples.

    Args:
        train: list of `TextExample`; a pair is read as one text.
        n: n-grams of one to so many `unit`s, `word` or `char`.
        class_weight: None or `balanced`.

    Returns: what has scikit-learn's `predict` and `predict_proba` of texts.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(analyzer=unit, ngram_range=(1, n), min_df=2),
        LogisticRegression(class_weight=class_weight, max_iter=1000, C=4))
    return model.fit(_texts(train), [example.label for example in train])


def predict(train, dev, **options):
    """Learn from examples and tell the labels of others, a list of `TextExample`; options: see
    `learn`.

    Returns: `(labels, seconds)`: list of str, one for each of `dev`; for learning and telling.
    """
    started = time.perf_counter()
    told = list(learn(train, **options).predict(_texts(dev)))
    return told, time.perf_counter() - started


def _texts(examples):
    return [" ".join(filter(None, (example.text_a, example.text_b))) for example in examples]
