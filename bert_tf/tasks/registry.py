"""The types of tasks, and the tasks by name.

A type of task is a folder. It has

    task.py       `TYPE`, a `TaskType`: examples to features, predictions, metrics, its model
    signature.py  `signatures(served)`: what a SavedModel of its model answers
    datasets.py   `TASKS`, rows of `Task`; nothing imported there may need TensorFlow

of which it may lack the last two. Here it is one line.
"""

import functools
import importlib
import importlib.util
import re

from bert_tf.errors import UsageError, check_choice, explain
from bert_tf.tasks.base.read_examples import read_examples

# Where a SavedModel has signatures of several types, those of the first are what it is for.
TYPES = {
    "classification": "bert_tf.tasks.classification",
    "ranking": "bert_tf.tasks.ranking",
    "token_classification": "bert_tf.tasks.token_classification",
    "question_answering": "bert_tf.tasks.question_answering",
    "pretraining": "bert_tf.tasks.pretraining",
    "multi_vector": "bert_tf.tasks.embedding.multi_vector",
    "sparse": "bert_tf.tasks.embedding.sparse",
    "embedding": "bert_tf.tasks.embedding",
}
# Names of its pipelines and heads, and what our models for that are saved as.
_OF_TRANSFORMERS = {
    "text_classification": "classifier", "sequence_classification": "classifier", "ner": "tagger",
    "fill_mask": "pretraining", "masked_lm": "pretraining", "causal_lm": "language_model",
    "text_generation": "language_model", "sentence_similarity": "embedder",
    "feature_extraction": "encoder"}


def tasks():
    """Return `{name: Task}` of all types; TensorFlow is not loaded."""
    return {task.name: task for module in _modules("datasets") for task in module.TASKS}


def find_task(name, multi_label=False):
    """Return the `Task` of that name.

    Args:
        name: as given to `--task`.
        multi_label: whether a text may have any number of labels.

    Raises:
        UsageError: there is no such task, or its texts have one label each.
    """
    known = tasks()
    found = known[check_choice("task", name, known)]
    if multi_label and found.several is None:
        names = " or ".join(f"task={task.name!r}" for task in known.values() if task.several)
        raise UsageError(explain(f"several labels a text with task={name!r}", names))
    return found.several if multi_label else found


def read_task(name, path, *arguments, **options):
    """Read the examples of a file of the task of that name; arguments: see `read_examples`."""
    return read_examples(find_task(name), path, *arguments, **options)


def make_type(task, options, saved_task=None):
    """Return the `TaskType` of a `Task`, made for `options`.

    Args:
        task: the `Task`.
        options: the fields of `FinetuneConfig`.
        saved_task: what the model to be evaluated was saved as (`task.json`). Where that is no
            model of the task's type, another type may know how to evaluate it.
    """
    own = _type_of(task)
    if saved_task is None or any(model.saved_as == saved_task for model in own.models):
        return own(task, options)
    others = (module.TYPE for module in _modules("task"))
    return next((other for other in others if other.evaluates(task, saved_task)), own)(
        task, options)


def answering_signatures(name):
    """Return the signatures that predict for texts what a task of that name is about; none of an
    unknown one."""
    task = tasks().get(name)
    return _type_of(task).answered_by if task else ()


def model_classes():
    """Return `{name in task.json: Keras model class}`."""
    return {model.saved_as: model for module in _modules("task") for model in module.TYPE.models}


def named_elsewhere(name):
    """Return the name in task.json of what has another one: of the `tasks`, the types, the models'
    classes, or of pipelines and heads in transformers; None of any other."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", name).lower()
    if name in tasks():
        return _type_of(tasks()[name]).models[0].saved_as
    if name in TYPES:
        return importlib.import_module(f"{TYPES[name]}.task").TYPE.models[0].saved_as
    classes = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", model.__name__).lower(): saved_as
               for saved_as, model in model_classes().items()}
    return classes.get(name) or _OF_TRANSFORMERS.get(name)


def type_signatures(served):
    """Return `{name: Signature}` of all types that a `ServedModel` can answer, in their order."""
    return {name: signature for module in _modules("signature")
            for name, signature in module.signatures(served).items()}


def _type_of(task):
    return importlib.import_module(f"{TYPES[task.type]}.task").TYPE


def _modules(name):
    """Import the module of that name of every type that has one."""
    return [importlib.import_module(f"{package}.{name}") for package in TYPES.values()
            if _has(package, name)]


@functools.cache
def _has(package, name):
    return importlib.util.find_spec(f"{package}.{name}") is not None
