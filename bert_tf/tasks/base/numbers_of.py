"""Labels and weights of any type that holds numbers, as arrays."""

import numbers

import numpy as np

from bert_tf.errors import UsageError, explain


def numbers_of(column):
    """Return labels or weights as Keras takes them.

    Args:
        column: list, tuple, array, pandas Series, tensor, None, or a dict of such.

    Raises:
        UsageError: there are names among them, or rows are of different lengths.
    """
    if isinstance(column, dict):
        return {key: numbers_of(value) for key, value in column.items()}
    if isinstance(column, (list, tuple)):
        try:
            column = np.asarray(column)
        except ValueError as error:
            raise UsageError(explain("labels in rows of different lengths", "as many in each row",
                                     "-1 for those that are missing")) from error
    if hasattr(column, "to_numpy") and not isinstance(getattr(column, "dtype", None), np.dtype):
        column = column.to_numpy()  # Keras knows no types of pandas' own, such as Int64
    if getattr(getattr(column, "dtype", None), "kind", None) in ("U", "S", "O") and len(column):
        values = np.asarray(column)
        wrong = [each for each in values.flat if not isinstance(each, numbers.Real | np.bool_)]
        if not wrong:
            return np.array(values.tolist())
        raise UsageError(explain(f"labels such as {str(wrong[0])!r}", "numbers",
                                 "model.labels.index(label), the place of its name"))
    return column
