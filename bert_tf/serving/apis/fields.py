"""The JSON of a request, field by field; what is wrong is refused with the field's name."""

from bert_tf.serving.apis.refusal import Kind, refusal
from bert_tf.serving.wire.rest_text import read, show

_LARGEST_ID = 2 ** 31 - 1


class Fields:
    """The fields of a request's body. `null` is as good as nothing, as everywhere in these APIs.

    Args:
        body: bytes.
        packed: whether they are gzip.
        limits: `Limits`.
        known: names of the fields that there are, or None: others are passed over.

    Raises:
        ServingError: here and by every method.
    """

    def __init__(self, body, packed, limits, known=None):
        self._document = read(body, packed, limits)[0]
        self._limits = limits
        self._before = ""  # of names, the object that they are in
        for name in self._document:
            if known is not None and name not in known:
                raise refusal("field_unknown", Kind.FIELD, name[:64], wanted=", ".join(known))

    def part(self, name):
        """The `Fields` of a field that is an object; without it of an empty one."""
        value = self.get(name, dict, "an object", {})
        found = object.__new__(Fields)
        found._document, found._limits = value, self._limits
        found._before = f"{self._before}{name}."
        return found

    def get(self, name, kind, wanted, *default):
        """A field's value of a type; without one it is the default, or it has to be there."""
        value = self._document.get(name)
        if value is None:
            if default:
                return default[0]
            raise refusal("field_missing", Kind.FIELD, self._before + name, wanted=wanted)
        if kind is not None and type(value) is not kind:
            self._refuse(name, value, wanted)
        return value

    def _refuse(self, name, value, wanted):
        raise refusal("field", Kind.FIELD, self._before + name, value=show(value), wanted=wanted)

    def flag(self, name, default):
        return self.get(name, bool, "true or false", default)

    def number(self, name):
        """A whole number of at least 1; None where there is none."""
        value = self.get(name, int, "a whole number", None)
        if value is not None and value < 1:
            self._refuse(name, value, "at least 1")
        return value

    def choice(self, name, choices, default):
        wanted = " or ".join(filter(None, choices))
        value = self.get(name, str, wanted, default)
        if value not in choices:
            self._refuse(name, value, wanted)
        return value

    def text(self, name, *default, empty=False):
        """A string of Unicode characters, not longer than texts may be."""
        value = self.get(name, str, "a string", *default)
        return value if value is None else self.checked(name, value, empty)

    def checked(self, name, text, empty=False):
        """A value that has to be a text."""
        if type(text) is not str:
            self._refuse(name, text, "a string")
        if not text and not empty:
            raise refusal("field_empty", Kind.EMPTY, self._before + name,
                          wanted="text with something in it")
        try:
            size = len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            raise refusal("field", Kind.FIELD, self._before + name, value="no Unicode text",
                          wanted="UTF-8") from None
        if size > self._limits.text_bytes:
            raise refusal("field_size", Kind.FIELD, self._before + name, given=size,
                          wanted=self._limits.text_bytes)
        return text

    def beside(self, name, others):
        """A text that the model reads anew beside each of others: it counts as often as they."""
        text = self.text(name)
        size = len(text.encode()) * len(others)
        if size > self._limits.body_bytes:
            raise refusal("repeated_size", Kind.FIELD, self._before + name, items=len(others),
                          given=size, wanted=self._limits.body_bytes)
        return text

    def rows(self, name, wanted="a list of strings"):
        """A list with something in it, of not more than a request may have."""
        values = self.get(name, list, wanted)
        if not values:
            raise refusal("field_empty", Kind.EMPTY, self._before + name, wanted=wanted)
        if len(values) > self._limits.rows:
            raise refusal("too_many_inputs", Kind.TOO_MANY, self._before + name,
                          given=len(values), wanted=self._limits.rows)
        return values

    def texts(self, name, empty=False):
        """A list of strings."""
        return [self.checked(name, value, empty) for value in self.rows(name)]

    def texts_or_ids(self, name):
        """A text, texts, the token ids of a text, or of several.

        Returns: a list of str or of lists of int, and whether it was a single one.
        """
        wanted = "a string, a list of strings, of token ids or of lists of them"
        value = self.get(name, None, wanted)
        if type(value) is str:
            return [self.checked(name, value)], True
        if type(value) is not list:
            self._refuse(name, value, wanted)
        if value and type(value[0]) is int:
            return [self._ids(name, value)], True
        values = self.rows(name, wanted)
        if type(values[0]) is list:
            return [self._ids(name, row) for row in values], False
        return [self.checked(name, text) for text in values], False

    def _ids(self, name, row):
        if type(row) is not list:
            self._refuse(name, row, "a list of token ids")
        if not row:
            raise refusal("field_empty", Kind.EMPTY, self._before + name, wanted="token ids")
        if set(map(type, row)) != {int} or min(row) < 0 or max(row) > _LARGEST_ID:
            self._refuse(name, row, "token ids, whole numbers from 0 on")
        return row
