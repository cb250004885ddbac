"""Models in memory: those of keras-nlp and tf-models-official as ours, and ours as theirs."""

from bert_tf.converters.checkpoint import Checkpoint, Tensors, check_shapes, parameter_shapes
from bert_tf.converters.formats import load_format
from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.models.pretrained import float_variables
from bert_tf.storage import variables
from bert_tf.tasks.registry import model_classes

# The package that a model's class comes from -> the format.
_PACKAGES = {"keras_hub": "keras_hub", "official": "tf_models"}


def from_live(model, **options):
    """Our Keras model with the weights of a live one of another library.

        encoder = bert_tf.from_live(keras_nlp.models.BertBackbone.from_preset("folder"))

    Args:
        model: a BertBackbone, RobertaBackbone, AlbertBackbone, ElectraBackbone or GPT2Backbone of
            keras-nlp (keras-hub); a BertEncoderV2, AlbertEncoder or BertPretrainerV2 of
            tf-models-official.
        options: passed on to our class, for example `dtype="float32"` or `encoder_outputs=True`.

    Returns: an encoder, of a BertPretrainerV2 a `Pretrainer`, of a GPT2Backbone a
        `LanguageModel`; with `config` and `save_pretrained(folder)`.

    Raises:
        UsageError: another object, or one that no model of ours computes.
    """
    packages = [kind.__module__.split(".")[0] for kind in type(model).__mro__]
    package = next((name for name in packages if name in _PACKAGES), None)
    if package is None:
        raise UsageError(explain(f"a {type(model).__name__} of {packages[0]}",
                                 "a model of keras-nlp or tf-models-official"))
    checkpoint = load_format(_PACKAGES[package]).from_live(model)
    task = dict(checkpoint.task)
    ours = model_classes()[task.pop("task")](checkpoint.config, **task, **options)
    variables.assign_variables(ours.weights, checkpoint.tensors, type(model).__name__)
    return ours


def to_live(model, library):
    """A live model of another library with the weights of one of ours, float32.

        backbone = bert_tf.to_live(encoder, "keras_hub")

    Args:
        model: of ours, as `bert_tf.from_pretrained` gives. Heads for which the other class has
            no place are left out; adapters (`enable_lora`) are added to their kernels.
        library: `"keras_hub"` for a Backbone; `"tf_models"` for a BertEncoderV2 or
            AlbertEncoder, of a BERT with a masked-LM head a BertPretrainerV2.

    Raises:
        UsageError: their class computes something else, the field being named, or the model is
            quantized.
    """
    check_choice("library", library, sorted(_PACKAGES.values()))
    task = model.task_config()
    expected = parameter_shapes(model.config, task)
    values = float_variables(model, "the other model", "to_live before quantize")
    tensors = Tensors.of({path: value for path, value in values.items() if path in expected})
    check_shapes(expected, tensors.shapes, type(model).__name__)
    return load_format(library).to_live(Checkpoint(model.config, task, tensors))
