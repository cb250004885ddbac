"""What a model is: one frozen set of fields, refused where they contradict each other."""

import dataclasses
import difflib
import math

from bert_tf import files
from bert_tf.errors import UsageError, check_choice, explain

ACTIVATIONS = ("gelu", "gelu_approximate", "relu", "tanh")
FAMILIES = ("bert",)
# Input forms of pre-training examples; the first two carry next-sentence labels.
NEXT_SENTENCE_FORMATS = ("segment_pair", "sentence_pair")
FORMATS = (*NEXT_SENTENCE_FORMATS, "full_sentences", "doc_sentences")


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
    def from_dict(cls, values, source="the configuration"):
        """Build from plain values; an unknown or missing key raises UsageError."""
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
        return cls.from_dict(_object(path), path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Config):
    """Sizes and options of an encoder; keys are those of the official `bert_config.json`.

    Raises:
        UsageError: a value is out of range or two values contradict each other.
    """

    vocab_size: int  # entries of the vocabulary
    hidden_size: int = 768  # width D of every layer's output
    num_hidden_layers: int = 12  # transformer blocks
    num_attention_heads: int = 12  # heads N; hidden_size is a multiple
    intermediate_size: int = 3072  # width of the feed-forward layer
    hidden_act: str = "gelu_approximate"  # "gelu" is erf; "gelu_approximate" the tanh form
    hidden_dropout_prob: float = 0.1  # after embeddings and every output dense
    attention_probs_dropout_prob: float = 0.1  # on the attention probabilities
    max_position_embeddings: int = 512  # longest sequence
    type_vocab_size: int = 2  # segments
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    family: str = "bert"  # row of the table in models/families.py
    layer_norm_eps: float = 1e-12  # added to the variance
    padding_id: int = 0  # id of [PAD]

    def __post_init__(self):
        super().__post_init__()
        self._refuse(("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                      "intermediate_size", "max_position_embeddings", "type_vocab_size"),
                     lambda value: value >= 1, "at least 1")
        self._refuse(("hidden_dropout_prob", "attention_probs_dropout_prob"),
                     lambda value: 0 <= value < 1, "in [0, 1)")
        self._refuse(("initializer_range", "layer_norm_eps"), lambda value: 0 < value < math.inf,
                     "above 0")
        check_choice("hidden_act", self.hidden_act, ACTIVATIONS)
        check_choice("family", self.family, FAMILIES)
        if not 0 <= self.padding_id < self.vocab_size:
            raise UsageError(explain(f"padding_id={self.padding_id}",
                                     f"an id below vocab_size={self.vocab_size}"))
        if self.hidden_size % self.num_attention_heads:
            heads = [n for n in range(1, self.hidden_size + 1) if self.hidden_size % n == 0]
            near = min(heads, key=lambda n: abs(n - self.num_attention_heads))
            raise UsageError(explain(
                f"hidden_size={self.hidden_size} over "
                f"num_attention_heads={self.num_attention_heads} leaves a remainder",
                attempt=f"num_attention_heads={near}"))

    @property
    def head_size(self):
        """Width H of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def load_official(cls, path):
        """Read google-research/bert's `bert_config.json`, whose `gelu` is the tanh form."""
        values = _object(path)
        if values.setdefault("hidden_act", "gelu") == "gelu":
            values["hidden_act"] = "gelu_approximate"
        return cls.from_dict(values, path)

    @classmethod
    def load_any(cls, path):
        """Read either kind; only ours names a `family`."""
        return (cls.load if "family" in _object(path) else cls.load_official)(path)

    def save_official(self, path):
        """Write google-research/bert's `bert_config.json`.

        Raises:
            UsageError: the official code cannot compute this model.
        """
        if self.hidden_act == "gelu":
            raise UsageError(explain("hidden_act='gelu' is the erf form, which the official "
                                     "bert_config.json cannot name", "'gelu_approximate'"))
        extra = {"family": "bert", "layer_norm_eps": 1e-12, "padding_id": 0}
        values = self.to_dict()
        for key, official in extra.items():
            if values.pop(key) != official:
                raise UsageError(explain(f"{key}={getattr(self, key)!r} cannot be written to an "
                                         "official bert_config.json", repr(official)))
        if self.hidden_act == "gelu_approximate":
            values["hidden_act"] = "gelu"
        files.write_json(path, values)


def _object(path):
    values = files.read_json(path)
    if not isinstance(values, dict):
        raise UsageError(explain(f"{path}: {type(values).__name__}", "a JSON object"))
    return values
