"""What converters exchange: a configuration, a task and tensors keyed by our variable paths."""

import collections.abc
import dataclasses
import json

import numpy as np

from bert_tf.config import ModelConfig, as_list
from bert_tf.errors import UsageError, explain

_MOST_LAYERS = 10_000
_MOST_LISTED = 8


class Tensors(collections.abc.Mapping):
    """Named arrays that are loaded one at a time, when asked for.

    `tensors[name]` loads an array anew each time and keeps none, so that a conversion never
    holds all weights; `tensors.shapes` is `{name: shape}`, known without loading.

    Args:
        shapes: `{name: shape}`.
        load: `load(name)` gives the array of that shape.
    """

    def __init__(self, shapes, load):
        self.shapes = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
        self._load = load

    @classmethod
    def of(cls, arrays):
        """From `{name: array}` that is in memory anyway."""
        return cls({name: np.shape(array) for name, array in arrays.items()},
                   lambda name: np.asarray(arrays[name]))

    def renamed(self, names):
        """The same arrays under other names: `names` is `{new name: name here}`."""
        return Tensors({new: self.shapes[old] for new, old in names.items()},
                       lambda new: self[names[new]])

    def __getitem__(self, name):
        if name not in self.shapes:
            raise KeyError(name)
        return self._load(name)

    def __contains__(self, name):
        return name in self.shapes

    def __iter__(self):
        return iter(self.shapes)

    def __len__(self):
        return len(self.shapes)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A model outside of any format.

    `tensors` holds exactly the names and shapes of `parameter_shapes(config, task)`.
    """

    config: ModelConfig
    task: dict  # as in task.json of a model folder
    tensors: Tensors  # float32, keyed by our variable paths
    tokenizer: str | None = None  # folder with the tokenizer's files
    dropped: tuple[str, ...] = ()  # names in the source that were left behind
    notes: tuple[str, ...] = ()  # what was judged rather than read; convert prints these

    def __post_init__(self):
        for name, value in self.task.items():
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:  # half a surrogate pair, which JSON can hold
                raise UsageError(explain(f"{name}={value!r}, which is no text",
                                         "characters that UTF-8 has")) from error


def parameter_shapes(config, task):
    """Names and shapes of all variables of a model that were learned: `{path: shape}`.

    Args:
        config: a `ModelConfig`.
        task: the object of a model folder's `task.json`, such as `{"task": "encoder"}`.

    Raises:
        UsageError: more layers than any model has, or a model that no other format can hold.
    """
    if task.get("features"):
        raise UsageError(explain("a model that reads layers of a frozen encoder (features), for "
                                 "which other formats have no place", "one without"))
    shapes = _embeddings(config) | _encoder(config, config.family)
    hidden, kind = config.hidden_size, task["task"]
    if config.bilstm:
        for direction in ("forward", "backward"):
            shapes |= _lstm(f"{config.family}/bilstm/{direction}/lstm_cell", hidden)
    if config.pooling == "dense":
        shapes |= _dense(f"{config.family}/pooler/dense", hidden, hidden)
    if kind in ("pretraining", "sparse_embedder", "language_model"):
        shapes |= _masked_lm_head(config, "cls/predictions")
    if kind == "pretraining" and task.get("sentence_task"):
        name = {"next_sentence": "seq_relationship"}.get(task["sentence_task"],
                                                         task["sentence_task"])
        shapes |= _classes(f"cls/{name}", 2, hidden)
    if kind == "multi_vector_embedder":
        shapes |= _dense("cls/projection", hidden, task["dim"], bias=False)
    if kind == "replaced_tokens":
        shapes |= _dense("discriminator_predictions/dense", hidden, hidden)
        shapes |= _dense("discriminator_predictions/dense_1", hidden, 1)
        if task.get("generator"):
            generator = ModelConfig.from_dict(task["generator"])
            shapes |= _encoder(generator, "generator")
            shapes |= _masked_lm_head(generator, "generator_predictions")
    if kind in ("classifier", "tagger", "span"):
        shapes |= _label_head(config, kind, 2 if kind == "span" else len(task["labels"]))
    if task.get("query_table"):
        shapes["cls/query/term_weights"] = (config.vocab_size,)
    if kind == "embedder" and task.get("dense"):
        layers = 1 if task["combine"] == "sum" else len(task["layers"])
        width = hidden * layers * (2 if task["pooling"] == "mean_max" else 1)
        for number, options in enumerate(as_list(task["dense"])):
            shapes |= _dense(dense_name(number), width, options["units"], bias=options["use_bias"])
            width = options["units"]
    if kind == "embedder" and task["weighting"]:
        weights = "cls/pooling/term_weights"
        shapes |= {f"{weights}/inverse_document_frequency": (config.vocab_size,),
                   f"{weights}/average_length": ()}
    return shapes


def dense_name(number):
    """Return the name of an embedder's dense layer of that number."""
    return f"cls/pooling/dense_{number}" if number else "cls/pooling/dense"


def _embeddings(config):
    name, width = f"{config.family}/embeddings", config.embedding_width
    shapes = {f"{name}/word_embeddings": (config.vocab_size, width)}
    if config.trigram_input:
        shapes |= _dense(f"{name}/embedding_projection", 3 * width, config.hidden_size)
        width = config.hidden_size
    if config.type_vocab_size:
        shapes[f"{name}/token_type_embeddings"] = (config.type_vocab_size, width)
    if config.position_embedding == "learned":
        shapes[f"{name}/position_embeddings"] = (config.max_position_embeddings, width)
    if config.embedding_norm:
        shapes |= _layer_norm(f"{name}/LayerNorm", width, _norm_bias(config))
    return shapes


def _encoder(config, name):
    hidden, inner, width = config.hidden_size, config.intermediate_size, config.embedding_width
    kernel = (config.conv_kernel_size,) if config.feed_forward == "conv" else ()
    layers, within = config.num_hidden_groups or config.num_hidden_layers, config.block_width
    if layers > _MOST_LAYERS:
        raise UsageError(explain(f"num_hidden_layers={layers}", f"at most {_MOST_LAYERS}"))
    shapes = (_dense(f"{name}/embeddings_project", width, hidden)
              if config.projects_embeddings else {})
    bias, has_beta = config.use_bias and config.dense_bias, _norm_bias(config)
    outer = 2 * inner if config.feed_forward == "gated" else inner
    # Where LayerNorm stands in a block.
    after, before = ("attention/output", "output"), ("attention", "intermediate")
    norms = {"post": after, "pre": before, "both": (*before, *after)}[config.norm_position]
    for layer in range(layers):
        kind = "group" if config.num_hidden_groups else "layer"
        block = f"{name}/encoder/{kind}_{layer}"
        shapes |= _bottlenecks(config, block, bias, has_beta)
        attending = (within if config.key_query_shared_bottleneck
                     or config.use_bottleneck_attention else hidden)
        for part in ("query", "key", "value"):
            own = f"{block}/attention/self/{part}"
            entering = (hidden if part == "value" and not config.use_bottleneck_attention
                        else attending)
            shapes |= _dense(own, entering, config.query_size if part == "query" else
                             config.key_value_size,
                             bias=bias and (config.key_bias or part != "key"))
            if config.query_key_norm and part != "value":
                shapes |= _layer_norm(f"{own}/LayerNorm", config.head_size, has_beta)
        if config.relative_position == "disentangled" and not config.share_att_key:
            for term, part in (("c2p", "key"), ("p2c", "query")):
                if term in config.pos_att_type:
                    shapes |= _dense(f"{block}/attention/self/position_{part}", hidden, hidden,
                                     bias=bias and part == "query")
        shapes |= _dense(f"{block}/attention/output/dense", config.query_size, within, bias=bias)
        networks = ["", *(f"ffn_layer_{i}/" for i in range(config.num_feedforward_networks - 1))]
        for network in (f"{block}/{each}" for each in networks):
            shapes |= _dense(f"{network}intermediate/dense", within, outer, kernel,
                             bias and config.intermediate_bias)
            shapes |= _dense(f"{network}output/dense", inner, within, kernel, bias)
        for norm in norms if config.norms_entering(layer) else norms[1:]:
            shapes |= _layer_norm(f"{block}/{norm}/LayerNorm", within, has_beta)
        for network in networks[1:]:
            shapes |= _layer_norm(f"{block}/{network}output/LayerNorm", within, has_beta)
    if config.norm_position != "post":
        shapes |= _layer_norm(f"{name}/encoder/LayerNorm", hidden, has_beta)
    if config.first_conv_kernel_size:
        beside = f"{name}/encoder/conv"
        shapes |= _dense(f"{beside}/conv", hidden, hidden, (config.first_conv_kernel_size,))
        shapes |= _layer_norm(f"{beside}/LayerNorm", hidden)
    buckets = config.position_buckets
    if config.relative_position == "bias":
        shapes[f"{name}/encoder/relative_attention_bias/embeddings"] = (
            buckets, config.num_attention_heads)
    if config.relative_position == "disentangled":
        table = f"{name}/encoder/relative_embeddings"
        shapes[f"{table}/embeddings"] = (2 * buckets, hidden)
        if config.share_att_key:
            shapes |= _layer_norm(f"{table}/LayerNorm", hidden)
    return shapes


def _bottlenecks(config, block, bias, has_beta):
    hidden, within = config.hidden_size, config.intra_bottleneck_size
    sizes = {"bottleneck_input": (hidden, within)} if within else {}
    if config.key_query_shared_bottleneck:
        sizes["kq_shared_bottleneck"] = hidden, within
    if within:
        sizes["bottleneck_output"] = within, hidden
    shapes = {}
    for name, (before, after) in sizes.items():
        shapes |= _dense(f"{block}/{name}/dense", before, after, bias=bias)
        shapes |= _layer_norm(f"{block}/{name}/LayerNorm", after, has_beta)
    return shapes


def _norm_bias(config):
    """Whether what normalizes the embeddings and the stack has a `beta`."""
    return config.use_bias and config.norm in ("layer_norm", "no_norm")


def _masked_lm_head(config, name):
    width = config.embedding_width
    if config.masked_lm_head == "tied":
        return {}
    if config.masked_lm_head == "linear":
        hidden, inner = config.hidden_size, config.masked_lm_head_size
        return {**(_dense(f"{name}/inner/dense", hidden, inner, bias=False)
                   | _dense(f"{name}/transform/dense", inner, hidden, bias=False) if inner else {}),
                f"{name}/output_weights": (config.vocab_size, hidden)}
    extra = {}
    if config.masked_lm_head == "extended":
        extra = {f"{name}/extra_output_weights": (config.vocab_size, config.hidden_size - width)}
        width = config.hidden_size
    return {**extra,
            **_dense(f"{name}/transform/dense", config.hidden_size, width, bias=config.use_bias),
            **_layer_norm(f"{name}/transform/LayerNorm", width, config.use_bias),
            f"{name}/output_bias": (config.vocab_size,)}


def _label_head(config, kind, labels):
    hidden, transform = config.hidden_size, f"cls/{kind}/transform"
    shapes = {}
    if config.label_head in ("transform", "dense")[:2 if kind == "classifier" else 1]:
        shapes |= _dense(f"{transform}/dense", hidden, hidden, bias=config.use_bias)
    if config.label_head == "transform":
        shapes |= _layer_norm(f"{transform}/LayerNorm", hidden, config.use_bias)
    shapes |= _classes(f"cls/{kind}", labels, hidden)
    if config.label_head == "no_bias":
        del shapes[f"cls/{kind}/output_bias"]
    return shapes


def _dense(name, inputs, outputs, kernel=(), bias=True):
    shapes = {f"{name}/kernel": (*kernel, inputs, outputs), f"{name}/bias": (outputs,)}
    return shapes if bias else {f"{name}/kernel": shapes[f"{name}/kernel"]}


def _lstm(name, hidden):
    units = hidden // 2
    return {f"{name}/kernel": (hidden, 4 * units), f"{name}/recurrent_kernel": (units, 4 * units),
            f"{name}/bias": (4 * units,)}


def _layer_norm(name, width, bias=True):
    return {f"{name}/{part}": (width,) for part in (("gamma", "beta") if bias else ("gamma",))}


def _classes(name, classes, hidden):
    return {f"{name}/output_weights": (classes, hidden), f"{name}/output_bias": (classes,)}


def check_expressible(config, read_back, where, labelled=False):
    """Refuse what a format's configuration file cannot say.

    Args:
        config: the `ModelConfig` to be written.
        read_back: the `ModelConfig` that reading the file would give.
        where: the file or format, for messages.
        labelled: whether a head of labels is written, which some fields are about.

    Raises:
        UsageError: they differ; the first such field is named.
    """
    stated, held = (each.spelled_out().to_dict() for each in (config, read_back))
    for name, value in stated.items():
        if value != held[name] and (labelled or name not in ("label_head", "label_act")):
            raise UsageError(explain(f"{name}={value!r} cannot be written to {where}",
                                     repr(held[name])))


def check_shapes(expected, found, source):
    """Compare `{name: shape}` of what should be there with what is.

    Raises:
        UsageError: one line that lists missing names with `-`, further ones with `+`, and
            wrong shapes with the expected and the found one.
    """
    wrong = [f"- {name} {shape}" for name, shape in expected.items() if name not in found]
    wrong += [f"+ {name} {shape}" for name, shape in found.items() if name not in expected]
    wrong += [f"{name} expected {shape}, found {tuple(found[name])}"
              for name, shape in expected.items()
              if name in found and tuple(found[name]) != tuple(shape)]
    if wrong:
        more = f"; and {len(wrong) - _MOST_LISTED} more" if len(wrong) > _MOST_LISTED else ""
        raise UsageError(f"{source} does not fit its configuration (- missing, + not expected): "
                         + "; ".join(wrong[:_MOST_LISTED]) + more)
