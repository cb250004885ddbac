"""Metrics of downstream tasks: labels, scores, tags or answers in, a dict of numbers out.

The numbers come from scikit-learn, SciPy, seqeval and the official SQuAD evaluators.
"""
