"""The student: a model of the teacher's kind that is smaller."""

import re

import numpy as np

from bert_tf.config import ModelConfig
from bert_tf.distill.config import refuse_layers
from bert_tf.distill.projection import principal_axes
from bert_tf.distill.teacher import token_vectors
from bert_tf.errors import UsageError, explain
from bert_tf.load import from_pretrained

_SCALED_BY = 4096  # texts that tell how long a static student's vectors have to be
_RARE = 1e-3  # what a token's weight is halved at (Arora et al. 2017, section 3)


def kept_layers(count, number):
    """Return which of `count` layers a student of `number` layers has: evenly spaced, the last
    one among them."""
    return tuple((index + 1) * count // number - 1 for index in range(number))


def student_config(teacher, options):
    """Return `(config, kept)`: a `ModelConfig`, and the teacher's layers in it or None.

    Args:
        teacher: `ModelConfig`.
        options: `DistillConfig`, complete, of a static student with its `hidden_size`.

    Raises:
        UsageError: the teacher has no such layers, or is not wider.
    """
    if options.static:
        return ModelConfig.from_dict({
            "family": "static", "vocab_size": teacher.vocab_size, "padding_id": teacher.padding_id,
            "hidden_size": options.hidden_size,
            "max_position_embeddings": teacher.longest}), None
    layers = teacher.num_hidden_layers
    if not layers:
        raise UsageError(explain("a static teacher, which has no layers that a student could have",
                                 attempt="--static, or another --teacher"))
    if options.hidden_size:
        return _narrower(teacher, options.hidden_size, options.num_hidden_layers or layers), None
    kept = options.keep_layers or kept_layers(layers, min(
        options.num_hidden_layers or max(1, layers // 2), layers))
    if max(kept) >= layers or sorted(set(kept)) != list(kept) or (
            options.num_hidden_layers or 0) > layers:
        flag = (f"--keep_layers {' '.join(map(str, kept))}" if options.keep_layers
                else f"--num_hidden_layers {options.num_hidden_layers}")
        raise UsageError(explain(f"{flag} of a teacher with {layers} layers",
                                 f"ascending numbers from 0 to {layers - 1}" if options.keep_layers
                                 else f"1 to {layers}"))
    if teacher.num_hidden_groups > 1:
        raise UsageError(f"the teacher's layers share {teacher.num_hidden_groups} sets of weights: "
                         "which of them are left out cannot be chosen; try --hidden_size")
    if any(teacher.sees_all(new) != teacher.sees_all(old) for new, old in enumerate(kept)):
        raise UsageError(explain(
            f"layers {' '.join(map(str, kept))} of a teacher of which every "
            f"{teacher.global_attention_every}th layer sees all of the text, the others a window",
            "layers of these kinds in this order",
            f"--keep_layers {' '.join(map(str, range(len(kept))))}"))
    return teacher.replace(num_hidden_layers=len(kept)), kept


def _narrower(teacher, width, layers):
    """Return the `ModelConfig` of new layers, with heads about as wide as the teacher's."""
    if width >= teacher.hidden_size:
        raise UsageError(explain(f"--hidden_size {width} of a teacher of {teacher.hidden_size}",
                                 "a smaller number"))
    if teacher.intra_bottleneck_size or teacher.trigram_input:
        raise UsageError(explain(f"--hidden_size {width} of a teacher with bottlenecks or trigrams",
                                 attempt="--keep_layers"))
    if teacher.attention_head_size:
        heads = max(1, round(teacher.num_attention_heads * width / teacher.hidden_size))
    else:
        heads = width // _head_size(teacher, width)
    group = teacher.num_attention_heads // teacher.key_value_heads
    return teacher.replace(
        hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers,
        # Embeddings that are narrower than the layers stay so, others are as wide as the layers.
        embedding_size=teacher.embedding_size if teacher.embedding_width < width else 0,
        num_key_value_heads=0 if heads % group else heads // group,
        intermediate_size=teacher.intermediate_size * width // teacher.hidden_size)


def _head_size(teacher, width):
    """Return the divisor of a width that is nearest to the width of the teacher's heads.

    Raises:
        UsageError: none is near.
    """
    rotary, near = teacher.relative_position == "rotary", min(teacher.head_size, width)
    sizes = [size for size in range(-(-near // 2), 2 * near + 1)
             if width % size == 0 and not (rotary and size % 2)]
    if not sizes:
        raise UsageError(explain(
            f"--hidden_size {width}, which no heads {'of an even width ' if rotary else ''}near "
            f"the teacher's {teacher.head_size} divide",
            f"a multiple of {near}" if near < width else "an even number"))
    return min(sizes, key=lambda size: abs(size - near))


def build_student(teacher, options, policy):
    """Build the student, with what it can have of the teacher's weights.

    Args:
        teacher: of `load_teacher`.
        options: `DistillConfig`, complete; a static student's table is for `fill_table` to fill.
        policy: Keras dtype policy.

    Returns: `(student, layers)`: the Keras model, of the teacher's class; for each of its layers
        the teacher's layer that it corresponds to.

    Raises:
        UsageError: the options do not fit the teacher.
    """
    made = {"dtype": policy, "seed": options.seed}
    dropout = {} if options.dropout is None else {
        "hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
    if options.init:
        def begun(**task_options):
            return from_pretrained(options.init, teacher.saved_as, dropout, **made, **task_options)

        student = begun(**_task_options(teacher, None, own_tokens=True))
        layers = student.config.num_hidden_layers
        if not layers:
            refuse_layers(f"--init {options.init}", options.objectives)
            student = begun(**_task_options(teacher, None, own_tokens=True, static=True))
        if layers > teacher.config.num_hidden_layers:
            raise UsageError(explain(f"--init {options.init} has {layers} layers", "at most the "
                                     f"teacher's {teacher.config.num_hidden_layers}"))
        return student, kept_layers(teacher.config.num_hidden_layers, layers)
    if options.static and teacher.saved_as != "embedder":
        raise UsageError(explain("--static with a teacher that predicts labels", "an embedder"))
    if options.static and not options.hidden_size:
        options = options.replace(hidden_size=min(teacher.config.hidden_size, teacher.width))
    config, kept = student_config(teacher.config, options)
    student = type(teacher)(
        config.replace(**dropout), **made, preprocessor=_preprocessor(teacher),
        **_task_options(teacher, kept, static=options.static))
    if options.static:
        return student, ()
    if kept is None:
        _project_embeddings(student, teacher)
        copy_term_weights(student, teacher)
        return student, kept_layers(teacher.config.num_hidden_layers, config.num_hidden_layers)
    _copy_weights(student, teacher, kept)
    return student, kept


def _preprocessor(teacher):
    own = teacher.preprocessor
    return type(own)(own.tokenizer, **own.reading())


def _task_options(teacher, kept, own_tokens=False, static=False):
    """Return the options of the student's class: the teacher's, as far as they fit.

    Args:
        teacher: of `load_teacher`.
        kept: the teacher's layers in the student, None where there are none.
        own_tokens: whether the student's tokenizer may be another one.
        static: whether the student has no layers.
    """
    options = teacher.options()
    if teacher.saved_as != "embedder":
        if "features" in teacher.further_options:
            options["features"] = None  # of --init neither: with them an encoder learns nothing
        options.pop("dropout", None)  # the student's own is before its head, too
        return options
    if kept is None:  # a model of its own, whose last layer learns what the teacher pools
        options = {**options, "layers": [-1]}
        options.pop("dense", None)
    else:
        states = [0, *(layer + 1 for layer in kept)]  # numbered as layers pooled
        missing = [layer for layer in options["layers"] if layer not in states]
        if missing:
            raise UsageError(explain(f"the teacher pools layer {missing[0]}, which the student "
                                     "lacks", f"--keep_layers with {missing[0] - 1}"))
        options = {**options, "layers": [states.index(layer) for layer in options["layers"]]}
    if own_tokens:
        options.pop("special_ids")  # those of the tokenizer of --init
    if static:
        # Special tokens say nothing where none sees another.
        options |= {"pooling": "mean", "mask_specials": True, "weighting": None}
    return options


def lacks_term_weights(student):
    """Return whether a student weighs terms by statistics that it does not have."""
    weights = student.saved_as == "embedder" and student.pooling.term_weights
    return bool(weights) and not weights.is_learned


def copy_term_weights(student, teacher):
    """Give a student that lacks them the statistics of a teacher of the same tokens."""
    if lacks_term_weights(student):
        student.pooling.term_weights.assign(*teacher.pooling.term_weights.get_weights())


def _copy_weights(student, teacher, kept):
    source = {variable.path: variable for variable in teacher.weights}
    # What a head makes of an LSTM's outputs it does not make of the encoder's.
    copied = student.encoder if "features" in teacher.options() else student
    for variable in copied.weights:
        path = re.sub(r"/encoder/layer_(\d+)/",
                      lambda match: f"/encoder/layer_{kept[int(match[1])]}/", variable.path)
        variable.assign(source[path])


def _project_embeddings(student, teacher):
    """Give a narrower student the teacher's embeddings, along the axes where they are longest."""
    source = {variable.path: variable.numpy()
              for variable in teacher.encoder.backbone.embeddings.weights}
    table = next(values for path, values in source.items() if path.endswith("word_embeddings"))
    width = student.config.embedding_width
    axes = principal_axes(table, width)
    for variable in student.encoder.backbone.embeddings.weights:
        values = source.get(variable.path)
        if values is not None and values.ndim == 2:
            variable.assign(values if width == values.shape[1] else values @ axes)


def fill_table(student, teacher, counts, axes):
    """Give a static student the teacher's vectors of single tokens, frequent ones made short.

    Tulkens and van Dongen 2024, "Model2Vec"; weights by smooth inverse frequency (Arora et al.
    2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", equation 3).

    Args:
        student: of `build_student`.
        teacher: of `load_teacher`.
        counts: int `[vocab_size]`, how often each token occurs in the text.
        axes: float `[teacher's width, width]`, those along which the teacher's vectors of texts
            are learned.
    """
    vectors = token_vectors(teacher) @ axes
    frequency = counts[:len(vectors)] / max(1, counts.sum())
    weights = _RARE / (_RARE + frequency)
    (table,) = student.encoder.weights
    filled = np.zeros(table.shape, np.float32)  # which may have rows that no token is of
    filled[:len(vectors)] = vectors * weights[:, np.newaxis]
    table.assign(filled)


def scale_table(student, features, answers):
    """Lengthen a static student's vectors so that means of them are as long as the teacher's.

    By least squares over the first texts. Vectors of single tokens are longer than those of texts
    and shorter than what a mean of many needs, and tokens that the text lacks are not learned.

    Args:
        student: of `build_student`, its table filled.
        features: `Features` of the train texts.
        answers: float32 `[n, width]`, the teacher's.
    """
    options, (table,) = student.options(), student.encoder.weights
    if options["normalize"]:
        return
    vectors, ids = table.numpy(), features.rows["input_word_ids"]
    rows = [ids[row][~np.isin(ids[row], options["special_ids"])]
            for row in range(min(len(features), _SCALED_BY))]
    means = np.stack([vectors[row].mean(0) if len(row) else np.zeros(vectors.shape[1], np.float32)
                      for row in rows])
    table.assign(vectors * max(np.sum(means * answers[:len(means)]) / np.sum(means**2), 1e-3))


def output_axes(vectors, width):
    """Return `principal_axes`, or where the width is the same the identity."""
    if vectors.shape[1] == width:
        return np.eye(width, dtype=np.float32)
    return principal_axes(vectors, width)
