"""What the server says when it refuses something, by the gRPC code that it gives.

Codes are TensorFlow Serving's wherever that has the case, the words our own: what was asked for or
given, and what would be right. `serving/README.md` lists what is refused here alone.
"""

from bert_tf.serving.wire.request import ServingError, TooLargeError

_BY_CODE = {
    "INVALID_ARGUMENT": {
        # Which model.
        "no_name": "the request names no model",
        "no_spec": "the request has no model_spec",
        "unknown_label": "no version has the label {label!r}",
        "no_metadata_field": "no metadata_field; expected signature_def",
        "metadata_field": "metadata_field {field}; expected signature_def",
        "damaged": "the request is damaged",
        "no_message": "the request has no message",
        # Which tensors.
        "inputs": "inputs {given}; the signature takes {wanted}",
        "tensor": "input {alias} does not hold what its type and shape say, or too much",
        "unknown_output": "no output {alias}; the signature gives {outputs}",
        "output_twice": "output {alias} is asked for twice",
        "dtype": "input {alias} has type {given}; expected {wanted}",
        "shape": "input {alias} has shape {given}; expected {wanted}",
        "shapes": "inputs do not fit the signature",
        "text_size": "input {alias} holds a text of {given} bytes; expected at most {wanted}",
        "context_size": "the context before every example makes {given} bytes; expected at most "
                        "{wanted}",
        "rows": "a request of {given} rows; expected at most {wanted}",
        # Classify, Regress and MultiInference.
        "no_examples": "the request has no examples",
        "no_named_signature": "the model has no signature {signature}",
        "method_name": "signature {signature} has method {method!r}; expected {wanted}",
        "examples_signature": "signature {signature} is not for {method}: it takes {inputs} and "
                              "gives {outputs}; expected inputs and {wanted}",
        "examples_output": "output {name} is {dtype} {shape}; expected {wanted}",
        "two_models": "tasks of several models; expected one",
        "signature_twice": "signature {signature} is asked for twice",
        # Batching.
        "no_batch_axis": "an input has no batch axis",
        "batch_axes": "the inputs have different numbers of rows",
        "task_size": "a request of {size} rows; batches have at most {limit}",
        # Configuration and warm-up.
        "not_a_list": "the configuration is no model_config_list",
        "empty_list": "the configuration names no model; expected those that are to stay",
        "nameless": "model of base_path {path!r} has no name",
        "listed_twice": "model {name} is listed twice",
        "relative_path": "model {name}: base_path {path!r}; expected an absolute one",
        "platform": "model {name}: model_platform is {platform}; expected tensorflow alone",
        "warmup_records": "more than {limit} warm-up records",
        "warmup_record": "warm-up record {number} is no PredictionLog",
        # The REST API's paths.
        "rest_malformed_request": "no such path: {method} {path}",
        "rest_version_not_numeric": "version {version}; expected a number below 2^63",
        "rest_missing_model_name": "the path names no model",
        # Its JSON: what holds of every request.
        "rest_coding": "Content-Encoding is {coding}; expected gzip, identity or none",
        "json_text": "the body is not JSON: {problem}",
        "json_not_object": "the body is {value}; expected an object",
        "json_too_many": "JSON of more than {limit} lists and objects",
        "json_too_many_values": "JSON of more than {limit} values",
        "json_too_long": "JSON that is damaged or beyond the standard (NaN, Infinity, bytes that "
                         "are no UTF-8) of {given} bytes; expected at most {wanted}",
        "json_too_deep": "JSON nested deeper than {limit} levels",
        "json_signature": "signature_name is {value}; expected a string",
        "json_list": "{key} is {value}; expected a list with something in it",
        # Values.
        "json_wrong_type": "{value} is no {dtype}",
        "json_base64": "{value}; expected {{\"b64\": base64 text}}",
        "json_ragged": "{value} does not fit shape {shape} of what is before it",
        # Requests to predict, and their answers.
        "json_key": "expected either instances or inputs",
        "json_no_inputs": "signature {name} takes no inputs, which JSON cannot ask for",
        "json_by_name": "the signature has several inputs; expected objects with {names}",
        "json_names": "names {given}; expected {names}",
        "json_mixed": "{value} after another kind of instance; expected all objects or none",
        "json_instance": "instance {item}: {problem}",
        "json_shape": "{name} has shape {shape}; expected {expected} as in the first instance",
        "json_no_outputs": "the signature gave no outputs",
        "json_batch": "output {name} has another batch axis than the rest, or none; ask with "
                      "inputs instead of instances",
        "json_unwritable_type": "output {name} has type {dtype}, which JSON cannot give",
        # The protocols of other servers.
        "field_missing": "{field} is missing; expected {wanted}",
        "field": "{field} is {value}; expected {wanted}",
        "field_unknown": "there is no field {field}; expected {wanted}",
        "field_empty": "{field} is empty; expected {wanted}",
        "field_size": "{field} holds a text of {given} bytes; expected at most {wanted}",
        "repeated_size": "{field}, read once for each of {items} texts, makes {given} bytes; "
                         "expected at most {wanted}",
        "too_many_inputs": "{field} holds {given} inputs; expected at most {wanted}",
        "too_long": "{text} has {given} tokens; the model reads {wanted}; try "
                    "truncate: true",
        "too_many_tokens": "a request of {given} tokens; expected at most {wanted}",
        "texts_of_row": "a row of {given} texts; model {name} reads {wanted}",
        "no_prompt": "prompt_name is {value}; expected {wanted}",
        "other_scores": "{field} asks for {value!r}; model {name} gives scores of {wanted}",
        "cannot_count": "truncate: false of model {name}, whose export cannot count tokens; try "
                        "exporting it again",
        "no_vectors": "model {name} gives no vector of a text",
        "no_ids": "model {name} is not asked by token ids",
        "no_weights": "model {name} gives no weights of tokens",
        "no_ranks": "model {name} is no reranker",
        "no_labels": "model {name} gives no labels",
        # Requests to classify and regress, and their answers.
        "json_example": "example {value}; expected an object of features",
        "json_feature": "feature {name} holds {value}; expected text, numbers or base64",
        "json_feature_name": "feature {name}, whose name is no UTF-8",
        "json_feature_kinds": "feature {name} mixes types",
        "json_no_results": "the signature gave no results"},
    "UNAUTHENTICATED": {
        "no_key": "no API key; expected the header Authorization: Bearer KEY",
        "wrong_key": "the API key is not one of this server's"},
    "NOT_FOUND": {
        "no_model": "there is no model {name}",
        "no_models": "there is no model yet",
        "several_models": "several models can be meant: {names}; try {way}",
        "not_found": "no version is available: {request}",
        "no_version": "model {name} has no version {version}",
        "no_versions": "model {name} has no versions",
        "tags": "the SavedModel has no graph with the tags {tags}",
        "no_saved_model": "the version's folder has no saved_model.pb"},
    "FAILED_PRECONDITION": {
        "overflows": "the version {problem}; serve one in float32 here",
        "no_signature": "the model has no signature {signature}",
        "merged_shapes": "requests that were merged have rows of different shapes: expected one "
                         "shape; pad_variable_length_inputs pads rows of different lengths",
        "output_axis": "an output has no batch axis, and cannot be parted again",
        "output_size": "an output has other rows than the inputs, and cannot be parted again",
        "label_unavailable": "a label for version {version} of model {name}, which is not loaded; "
                             "if the label is new, try "
                             "--allow_version_labels_for_unavailable_models=true",
        "rest_no_origin": "a preflight request without Origin"},
    "RESOURCE_EXHAUSTED": {
        "memory": "the request takes too much memory to be decoded",
        "queue_deadline": "the request's time ended while it waited for a batch",
        "rest_too_large": "the request has more than {limit} bytes"},
    "UNAVAILABLE": {
        "queue_full": "too many requests wait for a batch",
        "rest_busy": "too much of other requests is still arriving",
        "unhealthy": "no model can be asked",
        "no_server": "the server of the models does not answer",
        "not_now": "the server of the models cannot answer now",
        "stopping": "the server is shutting down"},
    "UNIMPLEMENTED": {
        "wrong_method": "the path is asked by another method; expected {method}",
        "multi_method": "method {method}; expected tensorflow/serving/classify or …/regress",
        "warmup_kind": "a warm-up record of the kind {kind}",
        "json_unreadable_type": "JSON cannot give type {dtype}"},
    "INTERNAL": {
        "not_loaded": "the version could not be loaded; the log says why",
        "failed": "the model failed; the server's log says why",
        "not_finite": "the model gave numbers that are not finite",
        "predict_method": "signature {signature} has method {method!r}, which is none for Predict",
        "rest_internal": "The server failed; its log says why"},
    "DATA_LOSS": {
        "saved_model": "saved_model.pb is no SavedModel",
        "warmup_file": "the warm-up file is no TFRecord"},
    "UNKNOWN": {"unavailable": "{number} models did not become available: {models}"},
    "CANCELLED": {"rest_disconnected": "the client went before its request was whole"},
    "DEADLINE_EXCEEDED": {"deadline": "the request's time ended"},
    "PERMISSION_DENIED": {
        "no_reload": "--allow_reload does not name this client: the server takes its models from "
                     "elsewhere",
        "not_below_roots": "model {name}: base_path is not below --reload_roots"},
}
_MESSAGES = {name: (code, text) for code, texts in _BY_CODE.items() for name, text in texts.items()}

_LONGEST = 1024  # characters of a text; gRPC takes 8 KB with each byte beyond ASCII as three
_LONGEST_VALUE = 256  # of what a client sent and the text repeats


def error(name, /, **values):
    """The `ServingError` of a row of the table, its text filled in with `values` and cut."""
    code, text = _MESSAGES[name]
    values = {key: value[:_LONGEST_VALUE] if type(value) is str else value
              for key, value in values.items()}
    said = quoted(code, text.format(**values))
    return TooLargeError(code, said.message) if name == "rest_too_large" else said


def quoted(code, text):
    """The `ServingError` of a code and of words that are not of the table, cut."""
    return ServingError(code, text[:_LONGEST if text.isascii() else _LONGEST // 2])


def check_texts(alias, texts, limits):
    """Refuse an input's texts, a list of bytes, if one is longer than `Limits` allow."""
    longest = max(map(len, texts), default=0)
    if longest > limits.text_bytes:
        raise error("text_size", alias=alias, given=longest, wanted=limits.text_bytes)


def check_context(context, examples, limits):
    """Refuse what all examples have in common, bytes, if it makes of them more than a request's."""
    size = len(context) * len(examples)
    if size > limits.body_bytes:
        raise error("context_size", given=size, wanted=limits.body_bytes)


def check_rows(values, limits):
    """Refuse a list of more rows than `Limits` allow."""
    if len(values) > limits.rows:
        raise error("rows", given=len(values), wanted=limits.rows)
