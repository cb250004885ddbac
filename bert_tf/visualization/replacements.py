"""How the predicted tokens of an example were replaced."""

REPLACEMENTS = ("mask", "random", "kept")


def count_replacements(masking):
    """Count the predicted tokens, and how many of them were replaced in each way: dict of int."""
    return {"chosen": len(masking["fates"]),
            **{each: masking["fates"].count(each) for each in REPLACEMENTS}}
