"""Ops that a served graph may use, and those that it uses.

`tensorflow_model_server` runs a graph only if every op in it is linked into the binary: those of
core TensorFlow, and those of tensorflow-text, whose `ops_lib` is among the
`SUPPORTED_TENSORFLOW_OPS` of TF Serving's `tensorflow_serving/model_servers/BUILD` (2.20.0).
"""

import os

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.errors import BertTfError, UsageError, explain
from bert_tf.storage import files
from bert_tf.storage.processor import lacks_vnni

# What tensorflow-text 2.20.0's `tensorflow_text:ops_lib` registers.
SERVING_TEXT_OPS = frozenset((
    "CaseFoldUTF8", "ConstrainedSequence", "FastBertNormalize", "FastWordpieceTokenizeWithOffsets",
    "FindSourceOffsets", "MaxSpanningTree", "NormalizeUTF8", "NormalizeUTF8WithOffsetsMap",
    "PhraseTokenize", "RegexSplitWithOffsets", "SentenceFragments", "SentenceFragmentsV2",
    "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp", "SentencepieceOp",
    "SentencepieceStringToIdOp", "SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp",
    "SentencepieceVocabSizeOp", "SplitMergeTokenizeWithOffsets", "TFText>BoiseTagsToOffsets",
    "TFText>ByteSplitByOffsets", "TFText>ByteSplitWithOffsets",
    "TFText>FastSentencepieceDetokenize", "TFText>FastSentencepieceTokenize",
    "TFText>FastWordpieceDetokenize", "TFText>NgramsStringJoin", "TFText>OffsetsToBoiseTags",
    "TFText>PhraseDetokenize", "TFText>RoundRobinGenerateMasks", "TFText>RoundRobinTrim",
    "TFText>Utf8Binarize", "TFText>WhitespaceTokenizeWithOffsetsV2", "TokenizerFromLogits",
    "UnicodeScriptTokenizeWithOffsets", "WhitespaceTokenizeWithOffsets",
    "WordpieceTokenizeWithOffsets"))

# In builds for x86, whose oneDNN multiplies whole numbers (`int8_product`).
SERVING_X86_OPS = frozenset(("_QuantizedMatMul",))
_PYTHON_OPS = frozenset(("EagerPyFunc", "PyFunc", "PyFuncStateless"))
OVERFLOWS = "computes in int8, whose sums overflow on this processor, which has no VNNI"

_METHODS = {"classify": tf.saved_model.CLASSIFY_METHOD_NAME,
            "regress": tf.saved_model.REGRESS_METHOD_NAME}


def read_saved_model(saved_model):
    """Read the message `SavedModel` in a folder; BertTfError if it is missing or damaged."""
    path = os.path.join(saved_model, "saved_model.pb")
    with files.open_binary(path) as stream:
        try:
            proto = saved_model_pb2.SavedModel.FromString(stream.read())
        except message.DecodeError as error:
            raise BertTfError(f"{path} is damaged: {error}") from error
    if len(proto.meta_graphs) != 1:
        raise BertTfError(explain(f"{path} holds {len(proto.meta_graphs)} graphs", "one"))
    return proto


def _nodes(meta_graph):
    """Return all nodes of the graph and of its functions."""
    graph = meta_graph.graph_def
    return [*graph.node, *(node for f in graph.library.function for node in f.node_def)]


def overflows_here(meta_graph):
    """Return whether a `MetaGraphDef` multiplies whole numbers, wrongly on this processor."""
    return lacks_vnni() and any(node.op in SERVING_X86_OPS for node in _nodes(meta_graph))


def check_processor(saved_model):
    """Refuse a SavedModel folder that this processor would compute wrongly: UsageError."""
    if overflows_here(read_saved_model(saved_model).meta_graphs[0]):
        raise UsageError(explain(f"{saved_model} {OVERFLOWS}", attempt="an export in float32"))


def used_ops(saved_model):
    """Return the names of all ops in the graph of a SavedModel folder and in all its functions."""
    proto = read_saved_model(saved_model)
    functions = {f.signature.name for f in proto.meta_graphs[0].graph_def.library.function}
    return {node.op for node in _nodes(proto.meta_graphs[0])} - functions


def finish_graph(saved_model):
    """Keep what servers and loaders need, and remove what would only trouble them.

    The signatures of the Classify and Regress APIs name their method, `tf.saved_model.save` calls
    all of them `predict`: TF Serving with `--enable_signature_method_name_check` asks for it
    (`servables/tensorflow/classifier.cc`). The gradients that layers wrote out are forgotten: a
    program that loads the graph has none of them and would be warned at every node, while
    TensorFlow finds its own for the ops inside.
    """
    proto = read_saved_model(saved_model)
    signature_defs = proto.meta_graphs[0].signature_def
    for name, method in _METHODS.items():
        if name in signature_defs:
            signature_defs[name].method_name = method
    for node in _nodes(proto.meta_graphs[0]):
        node.attr.pop("_gradient_op_type", None)
    files.write_bytes(os.path.join(saved_model, "saved_model.pb"), proto.SerializeToString())


def unservable_ops(saved_model):
    """Return the ops of a SavedModel folder that TF Serving does not link, sorted.

    `tf.raw_ops` names the core ops, whatever libraries of other packages this process has loaded;
    of these the ones that call Python have none to call there.
    """
    return sorted(op for op in used_ops(saved_model) - SERVING_TEXT_OPS - SERVING_X86_OPS
                  if op in _PYTHON_OPS or not hasattr(tf.raw_ops, op))
