"""Configurations, manifests and vocabularies of all formats."""

import json
import os

from fuzzing.target import Bytes, Target, bytes_or_json, folder, json_seeds, write

MODEL = {"vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 16, "family": "bert"}
TRAIN = {"train_steps": 10, "batch_size": 4, "learning_rate": 1e-3, "optimizer": "lamb"}
HF = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 40,
      "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16,
      "hidden_act": "gelu", "max_position_embeddings": 16, "pad_token_id": 0,
      "id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1},
      "problem_type": "regression"}
GPT = {"model_type": "openai-gpt", "n_embd": 8, "n_layer": 2, "n_head": 2, "afn": "gelu",
       "n_positions": 16, "vocab_size": 40}
GPT2 = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": None,
        "n_positions": 16, "vocab_size": 40, "eos_token_id": 39}
_ROTARY = {"rope_type": "default", "rope_theta": 10000.0}
QWEN = {"model_type": "qwen3", "architectures": ["Qwen3Model"], "vocab_size": 40, "hidden_size": 8,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
        "intermediate_size": 16, "max_position_embeddings": 16, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True, "rope_parameters": _ROTARY,
        "layer_types": ["full_attention"] * 2}
GEMMA = {**QWEN, "model_type": "gemma3_text", "architectures": ["Gemma3TextModel"],
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 4,
         "use_bidirectional_attention": True, "sliding_window": 4,
         "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {
             "full_attention": _ROTARY, "sliding_attention": _ROTARY}}
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 40,
      "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2, "dropout_rate": 0.1,
      "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": True,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "n_positions": 16}
_HF = (HF, GPT, GPT2, QWEN, GEMMA, T5)
OFFICIAL = {"encoder": "BertEncoderV2", "encoder_args": {
    "vocab_size": 40, "hidden_size": 8, "num_layers": 2, "num_attention_heads": 2,
    "type_vocab_size": 2, "max_sequence_length": 16, "inner_dim": 16, "embedding_width": 8,
    "inner_activation": "gelu (erf)", "output_dropout": 0.1, "attention_dropout": 0.1},
    "initializer": {"stddev": 0.02}, "pretrainer_args": {"mlm_activation": "gelu (erf)"}}
KERAS_HUB = {"module": "keras_hub.src.models.bert.bert_backbone", "class_name": "BertBackbone",
             "registered_name": "keras_hub>BertBackbone", "config": {
                 "vocabulary_size": 40, "num_layers": 2, "num_heads": 2, "hidden_dim": 8,
                 "intermediate_dim": 16, "dropout": 0.1, "max_sequence_length": 16,
                 "num_segments": 2, "dtype": "float32", "name": "b", "trainable": True}}
_TEMPLATE = {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
_IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5, "b": 6, "ab": 7}
TOKENIZER_JSON = {"model": {"type": "WordPiece", "vocab": _IDS, "unk_token": "[UNK]"},
                  "normalizer": {"type": "BertNormalizer", "lowercase": True,
                                 "strip_accents": None}, "post_processor": _TEMPLATE,
                  "pre_tokenizer": {"type": "BertPreTokenizer"},
                  "added_tokens": [{"id": 4, "content": "[MASK]", "lstrip": True,
                                    "rstrip": False, "special": True}]}
BPE_JSON = {"model": {"type": "BPE", "vocab": _IDS, "merges": ["a b", ["a", "b"]]},
            "pre_tokenizer": {"type": "ByteLevel", "use_regex": True}, "normalizer": None,
            "post_processor": _TEMPLATE}
_END = {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
CHARACTERS_JSON = {
    "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "[UNK]",
              "vocab": {**_IDS, "\u2581": 8, **{f"<0x{byte:02X}>": 9 + byte
                                               for byte in range(256)}}, "merges": [["a", "b"]]},
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    "pre_tokenizer": None, "post_processor": {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, _END],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, _END,
                 {"Sequence": {"id": "B", "type_id": 0}}, _END],
        "special_tokens": {"[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "added_tokens": [{"id": number, "content": token, "special": True}
                     for token, number in _IDS.items() if number < 5]}
UNIGRAM_JSON = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [
    [token, -float(number)] for token, number in _IDS.items()]}, "normalizer": None,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581"}]},
    "post_processor": _TEMPLATE}
BYTES_JSON = {**UNIGRAM_JSON, "model": {**UNIGRAM_JSON["model"], "byte_fallback": True, "vocab": [
    *UNIGRAM_JSON["model"]["vocab"], *([f"<0x{byte:02X}>", 0.0] for byte in range(256))]}}
CASINGS = ({"lower_case": True, "strip_accents": False, "pretokenize": "morphemes"},
           {"do_lower_case": True, "strip_accents": None}, {"add_prefix_space": True},
           {"do_lower_case": True, "keep_accents": False, "remove_space": True},
           {"tokenizer_class": "T5Tokenizer", "extra_ids": 3})
_TOKENIZERS = (*CASINGS, TOKENIZER_JSON, BPE_JSON, CHARACTERS_JSON, UNIGRAM_JSON, BYTES_JSON)
MANIFEST = {"fingerprint": "0", "options": {"seed": 1, "input": ["a"]}, "inputs": ["a"]}
TASK = {"task": "classifier", "labels": ["a"], "reading": {"seq_length": 8}}
STATE = {"step": 5, "position": [0], "files": {"variables.index": {"size": 3, "blake2b": "00"}}}


def _config():
    from bert_tf import config
    from bert_tf.training.config import TrainConfig

    readers = (config.ModelConfig.load, TrainConfig.load, config.ModelConfig.load_any)

    def check(data):
        data = Bytes(data)
        path = write("config.json", bytes_or_json((MODEL, TRAIN), data.rest[1:]))
        read = readers[data.byte() % 3](path)
        assert type(read).from_dict(json.loads(json.dumps(read.to_dict()))) == read

    return check


def _hf_config():
    from bert_tf.converters import checkpoint, hf_config
    from bert_tf.storage import files

    def check(data):
        path = write("hf_config.json", bytes_or_json(_HF, data))
        values = files.read_json_object(path)
        config = hf_config.read_config(values, path, True, False)
        for task in ("classifier", "tagger"):
            labels = hf_config.read_classes(values, path, task)["labels"]
            assert all(isinstance(label, str) for label in labels)
        checkpoint.parameter_shapes(config, {"task": "encoder"})

    return check


def _tf_models_config():
    from bert_tf.converters import google_tf1, tf_models_config
    from bert_tf.storage import files

    def check(data):
        path = write("tf_models.json", bytes_or_json((OFFICIAL, MODEL), data))
        values = files.read_json(path)
        if data[:1] == b"\1":
            google_tf1.model_config(values, "bert", path)
        else:
            tf_models_config.model_config(values, path)

    return check


def _keras_hub():
    from bert_tf.converters import keras_hub, keras_hub_tokenizer

    preset = {"class_name": "BertTokenizer", "config": {"lowercase": True, "strip_accents": False}}

    def check(data):
        path = write("keras_hub.json", bytes_or_json((KERAS_HUB, preset), data))
        if data[:1] == b"\1":
            keras_hub_tokenizer._read_options(path, "bert")
        else:
            keras_hub._read_config(*keras_hub._read_class(path), path)

    return check


def _tokenizer_files():
    from bert_tf.tokenization import (
        byte_pair,
        pair_files,
        sentence_piece,
        tokenizer,
        tokenizer_json,
    )
    from bert_tf.tokenization.vocabulary import Vocabulary

    readers = (
        tokenizer.read_options, lambda path: byte_pair.read_options(path, ["<|endoftext|>"]),
        sentence_piece.read_options,
        pair_files.read_tokens, pair_files.read_merges,
        lambda path: tokenizer_json.read_tokenizer(path, {}), lambda path: Vocabulary.load(path))

    def check(data):
        data = Bytes(data)
        reader = data.pick(readers)
        path = write("tokenizer.json", bytes_or_json(_TOKENIZERS, data.rest))
        read = reader(path)
        if isinstance(read, Vocabulary):
            assert [read.id(token) for token in read.tokens] == [*range(len(read))]

    return check


def _manifest():
    from bert_tf.storage import checksums, manifest
    from bert_tf.tasks import pretrained

    def check(data):
        path = write("manifest.json", bytes_or_json((MANIFEST, TASK, {"files": STATE["files"]}),
                                                    data))
        if data[:1] == b"\1":
            os.replace(path, os.path.join(folder(), "task.json"))
            pretrained.read_saved_task(folder(), {})
        elif data[:1] == b"\2":
            os.replace(path, os.path.join(folder(), checksums.NAME))
            checksums.check(folder())
        else:
            manifest.check_own(path, ["examples"], "input")
            manifest.finished(path, {"seed": 1, "input": ["a"]})

    return check


def _checkpoint_state():
    from bert_tf.training.checkpoint import Checkpoints

    checkpoints = Checkpoints(folder())
    os.makedirs(checkpoints.path(5), exist_ok=True)
    for name in ("variables.index", "../outside"):
        write(os.path.join(checkpoints.path(5), name), b"abc")

    def check(data):
        write(os.path.join(checkpoints.path(5), "state.json"), bytes_or_json((STATE,), data))
        checkpoints.load(5)
        raise AssertionError("what is no checkpoint was taken for one")

    return check


_JSON = (MODEL, TRAIN)
TARGETS = (
    Target("config", _config, tuple(bytes([kind]) + seed for kind in range(3)
                                    for seed in json_seeds(_JSON)), 500_000),
    Target("hf_config", _hf_config, json_seeds(_HF), 300_000),
    Target("tf_models_config", _tf_models_config, json_seeds((OFFICIAL, MODEL)), 250_000),
    Target("keras_hub", _keras_hub, json_seeds((KERAS_HUB, {})), 250_000),
    Target("tokenizer_files", _tokenizer_files, tuple(
        bytes([reader]) + seed for reader in range(7) for seed in json_seeds(_TOKENIZERS)),
        500_000),
    Target("manifest", _manifest, json_seeds((MANIFEST, TASK, {"files": STATE["files"]})), 250_000),
    Target("checkpoint_state", _checkpoint_state, json_seeds((STATE,)), 200_000),
)
