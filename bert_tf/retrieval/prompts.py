"""What a model wants before queries, and before what is searched."""

# Names that a model's prompts may have for either.
_PROMPTS = {"query": ("query",), "passage": ("passage", "document")}

QUERY, PASSAGE = ROLES = "query", "passage"


def prompted(prompts, kind, text):
    """Return a text after the prompt that a model has for its kind.

    Args:
        prompts: `{name: str}`, of a `SentenceEmbedder` or as an export's `describe` tells them.
        kind: `query`; `passage` of what is searched; None of texts that are equals.
        text: str.
    """
    prompt = next((prompts[name] for name in _PROMPTS.get(kind, ()) if prompts.get(name)), "")
    return prompt + text if prompt else text  # the same object, which may be marked as analysed
