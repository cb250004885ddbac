"""Options about text before it is tokenized."""

import dataclasses

from bert_tf.options import Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class CasingOptions(Options):
    """Casing and accents; None where not given."""

    lower_case: bool | None = option(None, "lower-case the text first (Unicode)")
    strip_accents: bool | None = option(
        None, "remove Latin accents, as uncased English BERT does; Hangul is kept")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretokenizeOptions(Options):
    """What text is split into before WordPiece."""

    pretokenize: str | None = option(
        None, "split Korean words into morphemes first (extra: korean)", choices=("morphemes",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(CasingOptions, PretokenizeOptions):
    """All of these."""

    def text_options(self):
        """`lower_case`, `strip_accents` and `pretokenize` as keyword arguments."""
        return {"lower_case": self.lower_case, "strip_accents": self.strip_accents,
                "pretokenize": self.pretokenize}
