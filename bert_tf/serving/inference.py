"""Classify and Regress: signatures that take serialized `tf.Example`.

What a signature must be and what may come out of it is TensorFlow Serving's
(`servables/tensorflow/classifier.cc`, `regressor.cc`, `util.cc`).
"""

import numpy as np

from bert_tf.serving.loaded_version import DEFAULT_SIGNATURE
from bert_tf.serving.messages import error

_INPUTS = "inputs"  # the name of the input, in both


class _Method:
    """What Classify and Regress share: `kind`, and the `name` that a signature may have."""

    kind = name = None

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
            raise error(f"{self.kind}_method", method=definition.method_name)
        if len(definition.inputs) != 1:
            raise error("one_input")
        self._check_outputs(definition)
        if _INPUTS not in definition.inputs:
            raise error(f"{self.kind}_inputs", signature=definition)
        return signature

    def inputs(self, signature, examples):
        """The signature's inputs for serialized `examples`."""
        if not examples:
            raise error("no_examples")
        array = np.empty(len(examples), object)
        array[:] = examples
        inputs = {_INPUTS: array}
        signature.check(inputs)
        return inputs


class _Classify(_Method):
    kind, name = "classify", "tensorflow/serving/classify"

    def _check_outputs(self, definition):
        if len(definition.outputs) not in (1, 2):
            raise error("classify_outputs", number=len(definition.outputs))
        if not {"classes", "scores"} & set(definition.outputs):
            raise error("classify_output_names", signature=definition)

    def answer(self, signature, number, outputs):
        """`[[(label, score), …], …]`; an output that there is not is `""`, or 0."""
        classes, scores = outputs.get("classes"), outputs.get("scores")
        for name, values, dtype in (("classes", classes, np.dtype(object)),
                                    ("scores", scores, np.dtype(np.float32))):
            if values is None:
                continue
            if values.ndim != 2:
                raise error("classify_shape", shape=list(values.shape))
            if values.dtype != dtype:
                raise error("classify_dtype", name=name, given=values.dtype,
                            wanted="DT_FLOAT" if name == "scores" else "DT_STRING")
            if len(values) != number:
                raise error("classify_batch", name=name, wanted=number, given=len(values))
        if classes is None:
            classes = np.full(scores.shape, b"", object)
        if scores is None:
            scores = np.zeros(classes.shape, np.float32)
        if classes.shape != scores.shape:
            raise error("classify_widths", classes=classes.shape[1], scores=scores.shape[1])
        return [[(label.decode("utf-8", "replace"), score) for label, score in
                 zip(*row, strict=True)]
                for row in zip(classes.tolist(), scores.tolist(), strict=True)]


class _Regress(_Method):
    kind, name = "regress", "tensorflow/serving/regress"

    def _check_outputs(self, definition):
        if len(definition.outputs) != 1:
            raise error("regress_outputs")
        if "outputs" not in definition.outputs:
            raise error("regress_output_names", signature=definition)

    def answer(self, signature, number, outputs):
        """`[value, …]`."""
        values = outputs["outputs"]
        if values.ndim != 1 and (values.ndim != 2 or values.shape[1] != 1):
            raise error("regress_shape", shape=list(values.shape))
        if len(values) != number:
            raise error("regress_batch", wanted=number, given=len(values))
        if values.dtype != np.float32:
            raise error("regress_dtype", given=values.dtype)
        return values.ravel().tolist()


METHODS = {method.kind: method for method in (_Classify(), _Regress())}
_BY_NAME = {method.name: method for method in METHODS.values()}


def method(name):
    """The method of a name such as `tensorflow/serving/classify`."""
    if name not in _BY_NAME:
        raise error("multi_method", method=name)
    return _BY_NAME[name]
