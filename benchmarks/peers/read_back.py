"""Folders that we wrote, read by transformers and sentence-transformers: how far off they are.

    PEER_PYTHON benchmarks/peers/read_back.py < requests

Each line of standard input is a JSON object: `reference`, a folder with `expected.json` and
`expected.npz`; `hf`, what `--to hf` made of it; of sentence encoders also `sentence_transformers`,
what that `--to` made of it, `texts`, and `vectors`, a `.npy` of what is expected of them. Each line
of standard output answers one: `error`, the largest difference of hidden states, pooled states and
logits at attended positions; `vectors`, that of the sentence vectors; `ids`, how many texts and
pairs have other ids; `notes`, tensors that were missing or not used.
"""

import json
import pathlib
import sys

import numpy as np
import sentence_transformers
import torch
import transformers

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def states_error(reference, folder):
    """`(largest difference, notes)` of the model in a folder."""
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, loaded = getattr(transformers, name).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    model.eval()
    notes = [f"{kind} {sorted(map(str, names))}" for kind, names in loaded.items() if names]
    worst = []
    with np.load(reference / "expected.npz") as arrays:
        for part in ("single", "pair"):
            own = {key.removeprefix(f"{part}/"): array for key, array in arrays.items()
                   if key.startswith(f"{part}/")}
            inputs = {key: torch.tensor(own.pop(key)) for key in _INPUTS if key in own}
            with torch.no_grad():
                output = model(**inputs, output_hidden_states=True)
            mask = inputs["attention_mask"].numpy()
            for key, expected in own.items():
                layer = key.removeprefix("hidden_states_")
                found = (output.hidden_states[int(layer)] if layer.isdecimal()
                         else output[key]).numpy()
                if expected.shape[:2] == mask.shape:
                    real = mask.reshape(mask.shape + (1,) * (expected.ndim - 2))
                    found, expected = found * real, expected * real
                worst.append(np.abs(found - expected).max())
    return float(np.max(worst)), notes  # NaN where one of them is


def other_ids(reference, folder):
    """How many texts and pairs the tokenizer in a folder gives other ids than the original."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    told = json.loads((reference / "expected.json").read_text())
    found = [tokenizer(text)["input_ids"] for text in told["texts"]]
    pairs = [tokenizer(*pair)["input_ids"] for pair in told["pairs"]]
    return sum(a != b for a, b in zip(found + pairs, told["ids"] + told["pair_ids"], strict=True))


def vectors_error(folder, texts, expected):
    """The largest difference of the sentence vectors."""
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    return float(np.abs(model.encode(texts, show_progress_bar=False) - np.load(expected)).max())


def answer(request):
    reference, folder = (pathlib.Path(request[name]) for name in ("reference", "hf"))
    error, notes = states_error(reference, folder)
    vectors = None
    if "vectors" in request:
        vectors = vectors_error(request["sentence_transformers"], request["texts"],
                                request["vectors"])
    return {"error": error, "vectors": vectors, "ids": other_ids(reference, folder),
            "notes": notes}


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for line in sys.stdin:
        try:
            told = answer(json.loads(line))
        except Exception as error:  # of one folder: the others are asked all the same
            told = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
