"""Classify and Regress: signatures that take serialized `tf.Example`.

What a signature must be and what may come out of it is TensorFlow Serving's
(`servables/tensorflow/classifier.cc`, `regressor.cc`, `util.cc`).
"""

import numpy as np

from bert_tf.serving.server.signature import DEFAULT_SIGNATURE, type_name
from bert_tf.serving.wire.messages import error

_INPUTS = "inputs"  # the name of the input, in both


class _Method:
    """What Classify and Regress share: `kind`, and the `name` that a signature may have.

    `outputs` says which it gives, to people.
    """

    kind = name = outputs = None

    def signature(self, version, name, check_names=False):
        """The signature of a version, if the method can use it.

        Args:
            version: `LoadedVersion`.
            name: of the signature, `""` for the default one.
            check_names: whether it must have the method's name
                (`--enable_signature_method_name_check`).
        """
        name = name or DEFAULT_SIGNATURE
        if name not in version.signatures:
            raise error("no_named_signature", signature=name)
        signature = version.signatures[name]
        definition = signature.definition
        if check_names and definition.method_name != self.name:
            raise error("method_name", signature=name, method=definition.method_name,
                        wanted=self.name)
        outputs = set(definition.outputs)
        if {*definition.inputs} != {_INPUTS} or not self.can_answer(outputs):
            raise error("examples_signature", signature=name, method=self.kind,
                        inputs=", ".join(definition.inputs), outputs=", ".join(sorted(outputs)),
                        wanted=self.outputs)
        return signature

    def inputs(self, signature, examples):
        """The signature's inputs for serialized `examples`."""
        if not examples:
            raise error("no_examples")
        array = np.empty(len(examples), object)
        array[:] = examples
        return signature.checked({_INPUTS: array})


class _Classify(_Method):
    kind, name = "classify", "tensorflow/serving/classify"
    outputs = "classes, scores or both"

    def can_answer(self, outputs):
        return len(outputs) <= 2 and bool({"classes", "scores"} & outputs)

    def answer(self, signature, number, outputs):
        """`[[(label, score), …], …]`; an output that there is not is `""`, or 0."""
        classes, scores = outputs.get("classes"), outputs.get("scores")
        for name, values, dtype in (("classes", classes, np.dtype(object)),
                                    ("scores", scores, np.dtype(np.float32))):
            if values is None:
                continue
            if values.ndim != 2 or values.dtype != dtype or len(values) != number:
                raise _wrong(name, values, f"{type_name(dtype)} [{number}, classes]")
        if classes is None:
            classes = np.full(scores.shape, b"", object)
        if scores is None:
            scores = np.zeros(classes.shape, np.float32)
        if classes.shape != scores.shape:
            raise _wrong("scores", scores, f"float32 {list(classes.shape)}, as classes")
        return [[(label.decode("utf-8", "replace"), score) for label, score in
                 zip(*row, strict=True)]
                for row in zip(classes.tolist(), scores.tolist(), strict=True)]


class _Regress(_Method):
    kind, name, outputs = "regress", "tensorflow/serving/regress", "outputs"

    def can_answer(self, outputs):
        return outputs == {"outputs"}

    def answer(self, signature, number, outputs):
        """`[value, …]`."""
        values = outputs["outputs"]
        if values.shape not in ((number,), (number, 1)) or values.dtype != np.float32:
            raise _wrong("outputs", values, f"float32 [{number}] or [{number}, 1]")
        return values.ravel().tolist()


def _wrong(name, values, wanted):
    return error("examples_output", name=name, dtype=type_name(values.dtype),
                 shape=list(values.shape), wanted=wanted)


METHODS = {method.kind: method for method in (_Classify(), _Regress())}
_BY_NAME = {method.name: method for method in METHODS.values()}


def method(name):
    """The method of a name such as `tensorflow/serving/classify`."""
    if name not in _BY_NAME:
        raise error("multi_method", method=name)
    return _BY_NAME[name]
