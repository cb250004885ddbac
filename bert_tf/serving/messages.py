"""What the server says when it refuses something: one table, with where TensorFlow Serving says it.

In the words about JSON, `value` is a piece of the request as `rest_text.show` gives it.
"""

from typing import NamedTuple

from bert_tf.serving.request import ServingError


class Message(NamedTuple):
    """A row of the table.

    Attributes:
        code: of gRPC.
        text: with names in braces to be filled in.
        source: file of TensorFlow Serving 2.20, or of TensorFlow, that says so; "" for our own.
    """

    code: str
    text: str
    source: str


_INVALID, _FAILED, _MISSING = "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND"
_CORE = "model_servers/server_core.cc"
_PREDICT = "servables/tensorflow/predict_util.cc"
_CLASSIFY = "servables/tensorflow/classifier.cc"
_REGRESS = "servables/tensorflow/regressor.cc"
_MULTI = "servables/tensorflow/multi_inference.cc"
_METADATA = "servables/tensorflow/get_model_metadata_impl.cc"
_STATUS = "model_servers/get_model_status_impl.cc"
_BATCH = "batching/batching_session.cc"
_QUEUE = "tensorflow: core/kernels/batching_util/shared_batch_scheduler.h"
_WARMUP = "servables/tensorflow/saved_model_warmup_util.cc"
_UTIL = "servables/tensorflow/util.cc"
_LOADER = "tensorflow: cc/saved_model/loader.cc"
_REST = "model_servers/http_rest_api_handler.cc, http_rest_api_util.cc"
_JSON = "util/json_tensor.cc: "  # and its function

MESSAGES = {
    # Which model.
    "no_name": Message(_INVALID, "ModelSpec has no name specified.", _CORE),
    "no_spec": Message(_INVALID, "Missing ModelSpec", _METADATA),
    "unknown_label": Message(_INVALID, "Unrecognized servable version label: {label}", _CORE),
    "not_found": Message(_MISSING, "Servable not found for request: {request}",
                         "core/basic_manager.cc"),
    "no_version": Message(_MISSING, "Could not find version {version} of model {name}", _STATUS),
    "no_versions": Message(_MISSING, "Could not find any versions of model {name}", _STATUS),
    "no_metadata_field": Message(
        _INVALID, "GetModelMetadataRequest must specify at least one metadata_field", _METADATA),
    "metadata_field": Message(_INVALID, "Metadata field {field} is not supported", _METADATA),
    # Which signature, with which tensors.
    "no_signature": Message(_FAILED, 'Serving signature key "{signature}" not found.', _PREDICT),
    "input_size": Message(
        _INVALID, "input size does not match signature: {given}!={wanted} len({{{inputs}}}) != "
        "len({{{signature_inputs}}}). Sent extra: {{{extra}}}. Missing but required: {{{missing}}}"
        ".", _PREDICT),
    "missing_input": Message(
        _INVALID, "Signature input alias: {alias}(feed name: {feed}) not found in request and no "
        "default value provided. Inputs expected to be in the request {{{inputs}}}, or default "
        "input alias set: ", "tensorflow: cc/saved_model/util.cc"),
    "tensor": Message(_INVALID, "tensor parsing error: {alias}",
                      "tensorflow: cc/saved_model/util.cc"),
    "unknown_output": Message(
        _INVALID, "output tensor alias not found in signature: {alias} Outputs expected to be in "
        "the set {{{outputs}}}.", _PREDICT),
    "output_twice": Message(_INVALID, "duplicate output tensor alias: {alias}", _PREDICT),
    "dtype": Message(_INVALID, "Expects arg[{index}] to be {wanted} but {given} is provided",
                     "tensorflow: core/framework/function.cc"),
    "shape": Message(_INVALID, "input {alias} has shape {given}; expected {wanted}", ""),
    "text_size": Message(
        _INVALID, "input {alias} holds a text of {given} bytes; expected at most {wanted}", ""),
    "rows": Message(_INVALID, "a request of {given} rows; expected at most {wanted}", ""),
    # Examples.
    "no_examples": Message(_INVALID, "Input is empty.", _UTIL),
    "no_named_signature": Message(_INVALID, "No signature was found with the name: {signature}",
                                  _CLASSIFY),
    "classify_method": Message(
        _INVALID, "Expected classification signature method_name to be "
        "tensorflow/serving/classify. Was: {method}", _CLASSIFY),
    "regress_method": Message(
        _INVALID, "Expected regression signature method_name to be tensorflow/serving/regress. "
        "Was: {method}", _REGRESS),
    "predict_method": Message(
        "INTERNAL", "Expected prediction signature method_name to be one of "
        "{{tensorflow/serving/predict, tensorflow/serving/classify, tensorflow/serving/regress}}. "
        "Was: {method}", _PREDICT),
    "one_input": Message(_INVALID, "Expected one input Tensor.", _CLASSIFY),
    "classify_outputs": Message(
        _INVALID, "Expected one or two output Tensors, found {number}", _CLASSIFY),
    "regress_outputs": Message(_INVALID, "Expected one output Tensor.", _REGRESS),
    "classify_inputs": Message(
        _FAILED, "No classification inputs found in SignatureDef: {signature}", _CLASSIFY),
    "regress_inputs": Message(
        _FAILED, "No regression inputs found in SignatureDef: {signature}", _REGRESS),
    "classify_output_names": Message(
        _FAILED, 'Expected classification signature outputs to contain at least one of "classes" '
        'or "scores". Signature was: {signature}', _CLASSIFY),
    "regress_output_names": Message(
        _FAILED, "No regression outputs found in SignatureDef: {signature}", _REGRESS),
    "classify_shape": Message(
        _INVALID, "Expected Tensor shape: [batch_size num_classes] but got {shape}", _CLASSIFY),
    "classify_dtype": Message(
        _INVALID, "Expected {name} Tensor of {wanted}. Got: {given}", _CLASSIFY),
    "regress_dtype": Message(
        _INVALID, "Expected output Tensor of DT_FLOAT.  Got: {given}", _REGRESS),
    "classify_batch": Message(
        _INVALID, "Expected {name} output batch size of {wanted}. Got: {given}", _CLASSIFY),
    "classify_widths": Message(
        _INVALID, "Tensors class and score should match in dim_size(1). Got {classes} vs. "
        "{scores}", _CLASSIFY),
    "regress_shape": Message(
        _INVALID, "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but "
        "got {shape}", _REGRESS),
    "regress_batch": Message(
        _INVALID, "Input batch size did not match output batch size: {wanted} vs. {given}",
        _REGRESS),
    "no_model_name": Message(_INVALID, "Found ModelSpec with an empty model name.", _MULTI),
    "two_models": Message(
        _INVALID, "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
        _MULTI),
    "signature_twice": Message(_INVALID, "Duplicate evaluation of signature: {signature}", _MULTI),
    "multi_signature": Message(
        _INVALID, "Requested signature not found in model graph: {signature}", _MULTI),
    "multi_method": Message(
        "UNIMPLEMENTED", "Unsupported signature method_name: {method}", _MULTI),
    # Batching.
    "no_batch_axis": Message(
        _INVALID, "Batching Run() input tensors must have at least one dimension", _BATCH),
    "batch_axes": Message(
        _INVALID, "Batching Run() input tensors must have equal 0th-dimension size", _BATCH),
    "task_size": Message(
        _INVALID, "Task size {size} is larger than maximum input batch size {limit}", _QUEUE),
    "queue_full": Message(
        "UNAVAILABLE", "The batch scheduling queue to which this task was submitted is full",
        _QUEUE),
    "output_axis": Message(_FAILED, "Batched output tensor has 0 dimensions", _BATCH),
    "output_size": Message(
        _FAILED, "Batched output tensor's 0th dimension does not equal the sum of the 0th "
        "dimension sizes of the input tensors", _BATCH),
    "deadline": Message(
        "DEADLINE_EXCEEDED", "Timed out waiting for notification",
        "tensorflow: core/common_runtime/direct_session.cc"),
    # Configuration.
    "not_a_list": Message(
        _INVALID, "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
        "ModelConfigList is currently supported", "model_servers/model_service_impl.cc"),
    "no_reload": Message(
        "PERMISSION_DENIED", "This server is open to clients that it does not know: it takes its "
        "models from --model_config_file alone (client_verify in --ssl_config_file changes that)",
        ""),
    "listed_twice": Message(
        _INVALID, "Illegal to list model {name} multiple times in config list", _CORE),
    "relative_path": Message(
        _INVALID, "Expected model {name} to have an absolute path or URI; got base_path()={path}",
        _CORE),
    "no_platform": Message(
        _INVALID, "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
        "ModelServerConfig::model_platform.", _CORE),
    "two_platforms": Message(
        _INVALID, "Illegal setting both ModelServerConfig::model_type (deprecated) and "
        "ModelServerConfig::model_platform.", _CORE),
    "platform": Message(_INVALID, "Model {name} requests unsupported platform {platform}", _CORE),
    "label_unavailable": Message(
        _FAILED, "Request to assign label to version {version} of model {name}, which is not "
        "currently available for inference", _CORE),
    "unavailable": Message(
        "UNKNOWN", "{number} model(s) did not become available: {{{models}}}", _CORE),
    # Loading.
    "tags": Message(
        _MISSING, "Could not find meta graph def matching supplied tags: {{ {tags} }}. To inspect "
        "available tag-sets in the SavedModel, please use the SavedModel CLI: `saved_model_cli`",
        _LOADER),
    "no_saved_model": Message(
        _MISSING, "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
        "{path}", _LOADER),
    "saved_model": Message("DATA_LOSS", "Can't parse {path} as binary proto",
                           "tensorflow: core/platform/env.cc"),
    "warmup_records": Message(
        _INVALID, "Number of warmup records exceeds the maximum ({limit}) at {path}", _WARMUP),
    "warmup_record": Message(_INVALID, "Failed to parse warmup record: {number} from {path}",
                             _WARMUP),
    "warmup_file": Message(
        "DATA_LOSS", "{problem}. Please verify your warmup data is in TFRecord format.", _WARMUP),
    "warmup_kind": Message(
        "UNIMPLEMENTED", "Unsupported log_type for warmup: {kind}",
        "servables/tensorflow/saved_model_warmup.cc"),
    # The REST API's paths.
    "rest_malformed_request": Message(_INVALID, "Malformed request: {method} {path}", _REST),
    "rest_version_not_numeric": Message(
        _INVALID, "Failed to convert version: {version} to numeric.", _REST),
    "rest_missing_model_name": Message(_INVALID, "Missing model name in request.", _REST),
    "rest_unknown_signature": Message(
        _INVALID, 'Serving signature name: "{name}" not found in signature def', _REST),
    "rest_no_origin": Message(
        _FAILED, "Origin header is missing in CORS preflight", "model_servers/http_server.cc"),
    "rest_busy": Message("UNAVAILABLE", "too much of other requests is still arriving", ""),
    # Its JSON: what holds of every request.
    "json_empty": Message(_INVALID, "JSON Parse error: The document is empty", _JSON + "ParseJson"),
    "json_too_many": Message(_INVALID, "JSON of more than {limit} lists and objects", ""),
    "json_too_many_values": Message(_INVALID, "JSON of more than {limit} values", ""),
    "json_too_long": Message(
        _INVALID, "JSON that is damaged or beyond the standard (NaN, Infinity, bytes that are no "
        "UTF-8) of {given} bytes; expected at most {wanted}", ""),
    "json_parse_error": Message(
        _INVALID, "JSON Parse error: {problem} at offset: {offset}", _JSON + "ParseJson"),
    "json_not_object": Message(_INVALID, "JSON Value: {value} Is not object", _JSON + "ParseJson"),
    "json_signature_not_string": Message(
        _INVALID, "JSON Value: {value} not formatted correctly. 'signature_name' key must be a "
        "string value.", _JSON + "FormatSignatureError"),
    # Values.
    "json_wrong_type": Message(
        _INVALID, "JSON Value: {value} Type: {type} is not of expected type: {dtype}",
        _JSON + "TypeError"),
    "json_lossy": Message(
        _INVALID, "Cannot convert JSON value: {value} to {dtype} without loss of precision.",
        _JSON + "LossyDecimalError"),
    "json_unreadable_type": Message(
        "UNIMPLEMENTED", "Conversion of JSON Value: {value} to type: {dtype}",
        _JSON + "AddValueToTensor"),
    "json_not_base64_object": Message(
        _INVALID, "JSON Value: {value} not formatted correctly for base64 data",
        _JSON + "Base64FormatError"),
    "json_not_base64": Message(
        _INVALID, "Unable to base64 decode", _JSON + "JsonDecodeBase64Object"),
    "json_wrong_level": Message(
        _INVALID, "JSON Value: {value} found at incorrect level: {level} in the JSON DOM. "
        "Expected at level: {rank}", _JSON + "FillTensorProto"),
    "json_list_too_deep": Message(
        _INVALID, "Encountered list at unexpected level: {level} expected < {rank}",
        _JSON + "FillTensorProto"),
    "json_list_size": Message(
        _INVALID, "Encountered list at unexpected size: {size} at level: {level} expected size: "
        "{expected}", _JSON + "FillTensorProto"),
    # Requests to predict.
    "json_no_inputs": Message(
        _INVALID, "Failed to get input map for signature: {name}",
        _JSON + "FillPredictRequestFromJson"),
    "json_missing_key": Message(
        _INVALID, "Missing 'inputs' or 'instances' key", _JSON + "FillPredictRequestFromJson"),
    "json_both_keys": Message(
        _INVALID, "JSON Value: {value} Not formatted correctly expecting only one of 'inputs' or "
        "'instances' keys to exist ", _JSON + "FillPredictRequestFromJson"),
    "json_instances_not_list": Message(
        _INVALID, "JSON Value: {value} Excepting 'instances' to be an list/array",
        _JSON + "FillPredictRequestFromJson"),
    "json_no_instances": Message(
        _INVALID, "JSON Value: {value} No values in 'instances' array",
        _JSON + "FillPredictRequestFromJson"),
    "json_instances_plain": Message(
        _INVALID, "instances is a plain list, but expecting list of objects as multiple input "
        "tensors required as per tensorinfo_map", _JSON + "FillTensorMapFromInstancesList"),
    "json_instance_not_object": Message(
        _INVALID, "Expecting object but got list at item {item} of input list",
        _JSON + "FillTensorMapFromInstancesList"),
    "json_instance_is_object": Message(
        _INVALID, "Expecting value/list but got object at item {item} of input list",
        _JSON + "FillTensorMapFromInstancesList"),
    "json_instance": Message(
        _INVALID, "Failed to process element: {item} of 'instances' list. Error: {error}",
        _JSON + "FillTensorMapFromInstancesList"),
    "json_instance_key": Message(
        _INVALID, "Failed to process element: {item} key: {name} of 'instances' list. Error: "
        "{error}", _JSON + "FillTensorMapFromInstancesList"),
    "json_instance_keys": Message(
        _INVALID, "Failed to process element: {item} of 'instances' list. JSON object: {value} "
        "keys must be equal to: {names}", _JSON + "FillTensorMapFromInstancesList"),
    "json_unknown_input": Message(
        _INVALID, "JSON object: does not have named input: {name}", _JSON + "AddInstanceItem"),
    "json_tensor_size": Message(
        _INVALID, "Expecting tensor size: {expected} but got: {size}", _JSON + "AddInstanceItem"),
    "json_tensor_shape": Message(
        _INVALID, "Expecting shape {expected} but got: {shape}", _JSON + "AddInstanceItem"),
    "json_inputs_plain": Message(
        _INVALID, "inputs is a plain value/list, but expecting an object as multiple input "
        "tensors required as per tensorinfo_map", _JSON + "FillTensorMapFromInputsMap"),
    "json_missing_input": Message(
        _INVALID, "Missing named input: {name} in 'inputs' object.",
        _JSON + "FillTensorMapFromInputsMap"),
    # Answers of predict.
    "json_no_outputs": Message(
        _INVALID, "Cannot convert empty tensor map to JSON", _JSON + "MakeJsonFromTensors"),
    "json_no_batch": Message(
        _INVALID, "Tensor name: {name} has no shape information ",
        _JSON + "MakeRowFormatJsonFromTensors"),
    "json_batch_sizes": Message(
        _INVALID, "Tensor name: {name} has inconsistent batch size: {size} expecting: {expected}",
        _JSON + "MakeRowFormatJsonFromTensors"),
    "json_unwritable_type": Message(
        _INVALID, "Failed to write JSON value for tensor type: {dtype}",
        _JSON + "AddSingleValueAndAdvance"),
    # Requests to classify and regress, and their answers.
    "json_no_examples_key": Message(
        _INVALID, "JSON Value: {value} When method is classify, key 'examples' is expected and "
        "was not found", _JSON + "FillClassifyRegressRequestFromJson"),
    "json_examples_not_list": Message(
        _INVALID, "JSON Value: {value} Expecting 'examples' value to be an list/array",
        _JSON + "FillClassifyRegressRequestFromJson"),
    "json_no_examples": Message(
        _INVALID, "JSON Value: {value} 'examples' value is an empty array",
        _JSON + "FillClassifyRegressRequestFromJson"),
    "json_example_not_object": Message(
        _INVALID, "Example must be JSON object but got JSON {type}",
        _JSON + "MakeExampleFromJsonObject"),
    "json_feature_type": Message(
        _INVALID, "Feature: {name} has element with unexpected JSON type: {type}",
        _JSON + "AddValueToFeature"),
    "json_feature_uint64": Message(
        _INVALID, "Feature: {name} has uint64 element. Only int64 is supported.",
        _JSON + "AddValueToFeature"),
    "json_feature_kind": Message(
        _INVALID, "Unexpected element type in feature: {name} expecting type: {kind}",
        _JSON + "IncompatibleFeatureKindError"),
    "json_no_classifications": Message(
        _INVALID, "Cannot convert empty ClassificationResults to JSON",
        _JSON + "MakeJsonFromClassificationResult"),
    "json_no_regressions": Message(
        _INVALID, "Cannot convert empty RegressionResults to JSON",
        _JSON + "MakeJsonFromRegressionResult"),
    # Bounds that TensorFlow Serving does not have: it would run out of memory or of stack.
    "json_too_deep": Message(_INVALID, "JSON Parse error: nested deeper than {limit} levels", ""),
    "rest_too_large": Message("RESOURCE_EXHAUSTED", "The request has more than {limit} bytes", ""),
    "rest_disconnected": Message("CANCELLED", "The client went before its request was whole", ""),
    "damaged": Message(_INVALID, "The request is damaged", ""),
    "memory": Message("RESOURCE_EXHAUSTED", "The request takes too much memory to be decoded", ""),
    "rest_internal": Message("INTERNAL", "The server failed; its log says why", ""),
    # The server itself.
    "internal": Message("INTERNAL", "{problem}", ""),
    "stopping": Message("UNAVAILABLE", "the server is shutting down", ""),
}


def error(name, /, **values):
    """The `ServingError` of a row of `MESSAGES`, its text filled in with `values`."""
    row = MESSAGES[name]
    return ServingError(row.code, row.text.format(**values))
