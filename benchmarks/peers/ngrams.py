"""What a user would try first: TF-IDF of n-grams and logistic regression, by scikit-learn."""

import time


def predict(train, dev, n, unit="word", class_weight=None):
    """Learn from examples and tell the labels of others.

    Args:
        train, dev: lists of `TextExample`; a pair is read as one text.
        n: n-grams of one to so many `unit`s, `word` or `char`.
        class_weight: None or `balanced`.

    Returns: `(labels, seconds)`: list of str, one for each of `dev`; for learning and telling.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    started = time.perf_counter()
    model = make_pipeline(
        TfidfVectorizer(analyzer=unit, ngram_range=(1, n), min_df=2),
        LogisticRegression(class_weight=class_weight, max_iter=1000, C=4))
    model.fit(_texts(train), [example.label for example in train])
    told = list(model.predict(_texts(dev)))
    return told, time.perf_counter() - started


def _texts(examples):
    return [" ".join(filter(None, (example.text_a, example.text_b))) for example in examples]
