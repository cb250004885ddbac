"""Write small folders of transformers' classes with drawn weights, and what they compute.

    PYTHON benchmarks/peers/draw_folders.py ../shared/reference/hub FOLDER
    python benchmarks/hub_folders.py FOLDER --only nomic_bert_mlm … --peer_python PYTHON

They are of kinds that the first folder has none of; texts, their ids and the tokenizer are those of
a folder there. PYTHON has transformers.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers

# Names begin: classes, the folder that the tokenizer is of, further fields.
KINDS = {"nomic_bert": ("NomicBert", "bert_st_mean", {"type_vocab_size": 2}),
         "gte": ("Gte", "xlm_roberta_mlm", {"type_vocab_size": 2, "rope_parameters": {
             "rope_type": "linear", "rope_theta": 160000.0, "factor": 1.25}}),
         "eurobert": ("EuroBert", "modernbert_mlm", {"num_key_value_heads": 1, "rope_parameters": {
             "rope_type": "default", "rope_theta": 250000.0}}),
         "deberta_v1": ("Deberta", "modernbert_mlm", {
             "relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False,
             "max_relative_positions": 24}),
         "jina_embeddings_v3": ("JinaEmbeddingsV3", "xlm_roberta_mlm", {}),
         "ultrabert": ("Ultrabert", "modernbert_mlm", {
             "num_key_value_heads": 1, "sliding_window": 4, "prediction_head_size": 20}),
         "mobilebert": ("MobileBert", "bert_st_mean", {
             "intra_bottleneck_size": 24, "embedding_size": 16, "classifier_activation": False})}
HEADS = {"mlm": "ForMaskedLM", "classification": "ForSequenceClassification",
         "tokens": "ForTokenClassification"}
SIZES = {"hidden_size": 36, "num_hidden_layers": 3, "num_attention_heads": 3,
         "intermediate_size": 52, "max_position_embeddings": 128, "initializer_range": 0.2}
_FILES = ("tokenizer*", "vocab*", "special_tokens_map.json", "sentencepiece*", "*.model",
          "expected.json")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def draw(source, folder, config, model_class):
    """Write a folder like `source` with a model of its own."""
    model = model_class(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 0.3, 0.3)
    model.tie_weights()
    model.save_pretrained(folder)
    for pattern in _FILES:
        for path in source.glob(pattern):
            shutil.copy(path, folder)
    with np.load(source / "expected.npz") as arrays:
        given = {key: arrays[key] for key in arrays if key.split("/")[1] in _INPUTS}
    found = dict(given)
    for part in ("single", "pair"):
        inputs = {key.removeprefix(f"{part}/"): torch.tensor(array)
                  for key, array in given.items() if key.startswith(f"{part}/")}
        with torch.no_grad():
            outputs = model(**inputs, output_hidden_states=True)
        found[f"{part}/logits"] = outputs.logits.numpy()
        found |= {f"{part}/hidden_states_{number}": state.numpy()
                  for number, state in enumerate(outputs.hidden_states)}
    np.savez(folder / "expected.npz", **found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("hub", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    for kind, (classes, like, fields) in KINDS.items():
        source = arguments.hub / like
        values = json.loads((source / "config.json").read_text())
        config = getattr(transformers, f"{classes}Config")(
            vocab_size=values["vocab_size"], pad_token_id=values["pad_token_id"], **SIZES, **fields)
        for head, name in HEADS.items():
            draw(source, arguments.output / f"{kind}_{head}", config,
                 getattr(transformers, f"{classes}{name}"))
            print(f"{kind}_{head}")


if __name__ == "__main__":
    main()
