"""Frozen sets of typed fields, in Python and as JSON files."""

import dataclasses
import difflib

from bert_tf.errors import UsageError, explain
from bert_tf.storage import files


class Config:
    """Base of the frozen configurations: typed fields, plain values, a JSON file.

    Raises:
        UsageError: a value has another type than its field, a key is unknown or missing.
    """

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            right = isinstance(value, (int, float) if field.type is float else field.type)
            if not right or (isinstance(value, bool) and field.type is not bool):
                raise UsageError(explain(f"{field.name}={value!r}", field.type.__name__))

    def _refuse(self, names, right, expected):
        """Raise UsageError for the first of the fields `names` whose value is not `right`."""
        for name in names:
            if not right(getattr(self, name)):
                raise UsageError(explain(f"{name}={getattr(self, name)}", expected))

    def replace(self, **changes):
        """A copy with some fields changed, checked again."""
        return self.from_dict({**self.to_dict(), **changes})

    def to_dict(self):
        """All fields as plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def _with_defaults(cls, values):
        """`values` and what they imply; subclasses override."""
        return values

    @classmethod
    def from_dict(cls, values, source="the configuration"):
        """Build from a dict of plain values; an unknown or missing key raises UsageError."""
        if not isinstance(values, dict):
            raise UsageError(explain(f"{source}: {type(values).__name__}", "a JSON object"))
        values = cls._with_defaults(values)
        fields = dataclasses.fields(cls)
        known = [field.name for field in fields]
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                raise UsageError(explain(f"{source}: unknown key {key!r}",
                                         attempt=repr(near[0]) if near else ""))
        for field in fields:
            if field.default is dataclasses.MISSING and field.name not in values:
                raise UsageError(f"{source}: {field.name} is missing")
        try:
            return cls(**values)
        except UsageError as error:
            raise UsageError(f"{source}: {error}") from None

    def save(self, path):
        """Write a JSON file."""
        files.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path):
        """Read a JSON file (our names; a model's exact `hidden_act`)."""
        return cls.from_dict(files.read_json(path), path)
