"""Configurations, manifests, vocabularies, checkpoints of other formats, and records."""

import io
import json
import math
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
UNIGRAM_JSON = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [
    [token, -float(number)] for token, number in _IDS.items()]}, "normalizer": None,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"}, "post_processor": _TEMPLATE}
CASINGS = ({"lower_case": True, "strip_accents": False, "pretokenize": "morphemes"},
           {"do_lower_case": True, "strip_accents": None}, {"add_prefix_space": True},
           {"do_lower_case": True, "keep_accents": False, "remove_space": True})
MANIFEST = {"fingerprint": "0", "options": {"seed": 1, "input": ["a"]}, "inputs": ["a"]}
TASK = {"task": "classifier", "labels": ["a"], "reading": {"seq_length": 8}}
STATE = {"step": 5, "position": [0], "files": {"variables.index": {"size": 3, "blake2b": "00"}}}
INDEX = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}
LABELS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


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
        path = write("hf_config.json", bytes_or_json((HF, GPT), data))
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
    from bert_tf.tokenization import byte_pair, sentence_piece, tokenizer, tokenizer_json
    from bert_tf.tokenization.vocabulary import Vocabulary

    readers = (
        tokenizer.read_options, byte_pair.read_options, sentence_piece.read_options,
        byte_pair._read_tokens, byte_pair._read_merges,
        lambda path: tokenizer_json.read_tokenizer(path, {}), lambda path: Vocabulary.load(path))

    def check(data):
        data = Bytes(data)
        reader = data.pick(readers)
        path = write("tokenizer.json", bytes_or_json(
            (*CASINGS, TOKENIZER_JSON, BPE_JSON, UNIGRAM_JSON), data.rest))
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


def _safetensors():
    from bert_tf.converters import safetensors_file

    def check(data):
        tensors = safetensors_file.read_file(write("fuzz.safetensors", data))
        for name, shape in tensors.shapes.items():
            assert tensors[name].shape == shape

    return check


def _shards():
    from bert_tf.converters import safetensors_file, weight_files

    inside = os.path.join(folder(), "shards")
    os.makedirs(inside, exist_ok=True)
    for name in ("shards/model-1.safetensors", "outside.safetensors"):
        write(name, _safetensors_seed())

    def check(data):
        write(f"shards/{safetensors_file.INDEX}", bytes_or_json((INDEX,), data))
        tensors = weight_files.read_folder(inside)
        assert all(tensors[name].shape == tensors.shapes[name] for name in tensors)

    return check


def _torch():
    """A whole archive of any bytes, and a sound one with a pickle of any bytes."""
    from bert_tf.converters import tensor_pickle, torch_file

    def check(data):
        if data[:1] == b"\0":
            for record in tensor_pickle.read_records(data[1:], "fuzz").values():
                assert math.prod(record.shape) <= record.storage.size
            return
        pickled = data[1:] if data[:1] == b"\1" else None
        path = write("fuzz.bin", torch_seed(pickled) if pickled is not None else data)
        tensors = torch_file.read_file(path)
        for name, shape in tensors.shapes.items():
            assert tensors[name].shape == shape

    return check


def torch_seed(pickled=None):
    """An archive as `torch.save` writes it, with two tensors of one storage."""
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", torch_pickle() if pickled is None else pickled)
        archive.writestr("m/byteorder", "little")
        archive.writestr("m/data/0", bytes(24))
    return stream.getvalue()


def torch_pickle(name=b"ctorch._utils\n_rebuild_tensor_v2\n", offset=0, size=b"K\x02K\x03\x86",
                 strides=b"K\x03K\x01\x86", key=b"0", numbers=6, storage=b"FloatStorage"):
    """The pickle of one tensor, instruction by instruction."""
    def text(value):
        return b"X" + len(value).to_bytes(4, "little") + value

    return (b"\x80\x02}q\x00(" + text(b"a") + name + b"((" + text(b"storage") + b"ctorch\n"
            + storage + b"\n" + text(key) + text(b"cpu") + b"K" + bytes([numbers]) + b"tQK"
            + bytes([offset]) + size + strides + b"\x89ccollections\nOrderedDict\n)RtR" + b"u.")


def _tensor_bundle():
    from bert_tf.storage import tensor_bundle

    def check(data):
        prefix = write("bundle.index", data).removesuffix(".index")
        for entry in tensor_bundle.read_index(prefix).values():
            assert entry.offset + entry.size <= os.path.getsize(entry.path)
            if math.prod(entry.shape) == 1 and not entry.dtype.size:
                tensor_bundle.read_string(entry)

    write("bundle.data-00000-of-00001", bytes(range(256)))
    return check


def _hdf5():
    from bert_tf.converters import hdf5_file

    def check(data):
        hdf5_file.array_shapes(write("fuzz.h5", data))

    return check


def _index():
    """The index of a shard, as a file of any bytes and as arrays of any values."""
    import numpy as np

    from bert_tf.data import records

    shard = write("fuzz.tfrecord", _shard())
    dtypes = ("<i8", "<i4", "<f8", "<u8", "?", "<i1", "<M8[s]", "<U1", "<c16")

    def check(data):
        data = Bytes(data)
        if data.byte() % 2:
            write("fuzz.index.npz", data.rest)
        else:
            arrays = {}
            for name in ("offsets", "num_tokens", "pair_labels"):
                if data.byte() % 16 == 15:
                    continue
                dtype, size = np.dtype(dtypes[data.byte() % 64 % len(dtypes)]), data.byte() % 8
                values = np.frombuffer(data.rest[:size * dtype.itemsize].ljust(
                    size * dtype.itemsize, b"\0"), dtype)
                data.rest = data.rest[size * dtype.itemsize:]
                arrays[name] = values.reshape(1, -1) if data.byte() % 16 == 15 else values
            stream = io.BytesIO()
            np.savez(stream, **arrays)
            write("fuzz.index.npz", stream.getvalue())
        read = records.Records([shard])
        if len(read):
            read.read(np.arange(len(read))[:4])

    return check


def _records():
    """A shard of any bytes after a sound index: whole records come out, or an error."""
    import numpy as np

    from bert_tf.data import records

    offsets = np.cumsum([0, 20, 30, 40])
    stream = io.BytesIO()
    np.savez(stream, offsets=offsets, num_tokens=np.ones(3, np.int32),
             pair_labels=np.zeros(0, np.int8))
    write("whole.index.npz", stream.getvalue())

    def check(data):
        path = write("whole.tfrecord", data)
        for record in records.Records([path]).read(np.arange(3)):
            assert record in data

    return check


def _examples():
    import tensorflow as tf

    from bert_tf.data import records
    from bert_tf.errors import BertTfError

    tables = [records.feature_table("dynamic", "next_sentence_labels", 8, 2),
              records.feature_table("static", None, 4, 2)]
    graphs = [tf.function(lambda given, table=table: records.parse(table, given),
                          input_signature=[tf.TensorSpec([1], tf.string)]) for table in tables]

    def check(data):
        choice = data[0] % 2 if data else 0
        try:
            parsed = graphs[choice](tf.constant([data[1:]]))
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            raise BertTfError("no example") from error  # as of explained_errors
        assert all(value.shape[0] == 1 for value in parsed.values())

    return check


def _safetensors_seed(shape=(2, 3)):
    header = json.dumps({"__metadata__": {"format": "pt"}, **{
        name: {"dtype": "F32", "shape": shape, "data_offsets": [24 * number, 24 * number + 24]}
        for number, name in enumerate("ab")}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(48)


def _shard():
    import numpy as np

    from bert_tf.data import records

    data, _ = records.frame((np.frombuffer(b"abcd" + b"e" * 14 + b"f" * 24, np.uint8),
                             np.array([4, 14, 24])))
    return data.tobytes()


def _index_seeds():
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, offsets=np.array([0, 20, 50, 90]), num_tokens=np.ones(3, np.int32),
             pair_labels=np.zeros(0, np.int8))
    return (b"\1" + stream.getvalue(), b"\0\0\0\4" + np.array([0, 20, 50, 90]).tobytes())


def _bundle_seed():
    from bert_tf.storage import variables

    prefix = os.path.join(folder(), "seed")
    variables.write_variables(prefix, {"a/b": [1.0, 2.0], "a/c": [[3]]})
    with open(prefix + ".index", "rb") as stream:
        return (stream.read(),)


def _hdf5_seed():
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("a/b", data=[1.0, 2.0])
    return (stream.getvalue(),)


def _example_seeds():
    import tensorflow as tf

    ids = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2, 3])) for name in (
        "input_word_ids", "input_type_ids", "word_starts")}
    ids["next_sentence_labels"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature=ids))
    return (b"\0" + example.SerializeToString(), b"\1" + example.SerializeToString())


_JSON = (MODEL, TRAIN)
TARGETS = (
    Target("config", _config, tuple(bytes([kind]) + seed for kind in range(3)
                                    for seed in json_seeds(_JSON)), 500_000),
    Target("hf_config", _hf_config, json_seeds((HF, GPT)), 300_000),
    Target("tf_models_config", _tf_models_config, json_seeds((OFFICIAL, MODEL)), 250_000),
    Target("keras_hub", _keras_hub, json_seeds((KERAS_HUB, {})), 250_000),
    Target("tokenizer_files", _tokenizer_files, tuple(
        bytes([reader]) + seed for reader in range(7)
        for seed in json_seeds((*CASINGS, TOKENIZER_JSON, BPE_JSON, UNIGRAM_JSON))), 500_000),
    Target("manifest", _manifest, json_seeds((MANIFEST, TASK, {"files": STATE["files"]})), 250_000),
    Target("checkpoint_state", _checkpoint_state, json_seeds((STATE,)), 200_000),
    Target("safetensors", _safetensors, (_safetensors_seed(), _safetensors_seed(())), 300_000),
    Target("torch", _torch, lambda: (torch_seed(), b"\0" + torch_pickle(), b"\1" + torch_pickle()),
           300_000),
    Target("shards", _shards, json_seeds((INDEX,)), 200_000),
    Target("tensor_bundle", _tensor_bundle, _bundle_seed, 500_000),
    Target("hdf5", _hdf5, _hdf5_seed, 100_000, 4096),
    Target("index", _index, _index_seeds, 200_000, 1024),
    Target("records", _records, lambda: (_shard(), b""), 200_000),
    Target("examples", _examples, _example_seeds, 100_000),
)

