"""What the REST API says when it refuses a request, with where TensorFlow Serving says it.

Words in braces are filled in; `value` is a piece of the request as `rest_text.show` gives it. The
name behind a line is that of the function; a line without has that of the one before. All are
answered with `INVALID_ARGUMENT`, status 400, unless the line says otherwise.
"""

# model_servers/http_rest_api_handler.cc, http_rest_api_util.cc
MALFORMED_REQUEST = "Malformed request: {method} {path}"  # ProcessRequest
VERSION_NOT_NUMERIC = "Failed to convert version: {version} to numeric."  # ParseModelInfo
MISSING_MODEL_NAME = "Missing model name in request."  # ProcessModelStatusRequest
UNKNOWN_SIGNATURE = 'Serving signature name: "{name}" not found in signature def'  # GetInfoMap

# util/json_tensor.cc: what holds of every request
EMPTY = "JSON Parse error: The document is empty"  # ParseJson
PARSE_ERROR = "JSON Parse error: {problem} at offset: {offset}"  # ParseJson
NOT_OBJECT = "JSON Value: {value} Is not object"  # ParseJson
SIGNATURE_NOT_STRING = ("JSON Value: {value} not formatted correctly. 'signature_name' key must be "
                        "a string value.")  # FormatSignatureError

# util/json_tensor.cc: values
WRONG_TYPE = "JSON Value: {value} Type: {type} is not of expected type: {dtype}"  # TypeError
LOSSY = ("Cannot convert JSON value: {value} to {dtype} without loss of "
         "precision.")  # LossyDecimalError
UNREADABLE_TYPE = "Conversion of JSON Value: {value} to type: {dtype}"  # AddValueToTensor; 501
NOT_BASE64_OBJECT = ("JSON Value: {value} not formatted correctly for base64 "
                     "data")  # Base64FormatError
NOT_BASE64 = "Unable to base64 decode"  # JsonDecodeBase64Object
WRONG_LEVEL = ("JSON Value: {value} found at incorrect level: {level} in the JSON DOM. Expected at "
               "level: {rank}")  # FillTensorProto
LIST_TOO_DEEP = "Encountered list at unexpected level: {level} expected < {rank}"  # FillTensorProto
LIST_SIZE = ("Encountered list at unexpected size: {size} at level: {level} expected size: "
             "{expected}")  # FillTensorProto

# util/json_tensor.cc: requests to predict
NO_INPUTS = "Failed to get input map for signature: {name}"  # FillPredictRequestFromJson
MISSING_KEY = "Missing 'inputs' or 'instances' key"
BOTH_KEYS = ("JSON Value: {value} Not formatted correctly expecting only one of 'inputs' or "
             "'instances' keys to exist ")
INSTANCES_NOT_LIST = "JSON Value: {value} Excepting 'instances' to be an list/array"
NO_INSTANCES = "JSON Value: {value} No values in 'instances' array"
INSTANCES_PLAIN = ("instances is a plain list, but expecting list of objects as multiple input "
                   "tensors required as per tensorinfo_map")  # FillTensorMapFromInstancesList
INSTANCE_NOT_OBJECT = "Expecting object but got list at item {item} of input list"
INSTANCE_IS_OBJECT = "Expecting value/list but got object at item {item} of input list"
INSTANCE = "Failed to process element: {item} of 'instances' list. Error: {error}"
INSTANCE_KEY = "Failed to process element: {item} key: {name} of 'instances' list. Error: {error}"
INSTANCE_KEYS = ("Failed to process element: {item} of 'instances' list. JSON object: {value} keys "
                 "must be equal to: {names}")
UNKNOWN_INPUT = "JSON object: does not have named input: {name}"  # AddInstanceItem
TENSOR_SIZE = "Expecting tensor size: {expected} but got: {size}"
TENSOR_SHAPE = "Expecting shape {expected} but got: {shape}"
INPUTS_PLAIN = ("inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map")  # FillTensorMapFromInputsMap
MISSING_INPUT = "Missing named input: {name} in 'inputs' object."

# util/json_tensor.cc: answers of predict
NO_OUTPUTS = "Cannot convert empty tensor map to JSON"  # MakeJsonFromTensors
NO_BATCH = "Tensor name: {name} has no shape information "  # MakeRowFormatJsonFromTensors
BATCH_SIZES = ("Tensor name: {name} has inconsistent batch size: {size} expecting: "
               "{expected}")  # MakeRowFormatJsonFromTensors
UNWRITABLE_TYPE = ("Failed to write JSON value for tensor type: "
                   "{dtype}")  # AddSingleValueAndAdvance

# util/json_tensor.cc: requests to classify and regress, and their answers
NO_EXAMPLES_KEY = ("JSON Value: {value} When method is classify, key 'examples' is expected and "
                   "was not found")  # FillClassifyRegressRequestFromJson
EXAMPLES_NOT_LIST = "JSON Value: {value} Expecting 'examples' value to be an list/array"
NO_EXAMPLES = "JSON Value: {value} 'examples' value is an empty array"
EXAMPLE_NOT_OBJECT = "Example must be JSON object but got JSON {type}"  # MakeExampleFromJsonObject
FEATURE_TYPE = "Feature: {name} has element with unexpected JSON type: {type}"  # AddValueToFeature
FEATURE_UINT64 = "Feature: {name} has uint64 element. Only int64 is supported."  # AddValueToFeature
FEATURE_KIND = ("Unexpected element type in feature: {name} expecting type: "
                "{kind}")  # IncompatibleFeatureKindError
NO_CLASSIFICATIONS = "Cannot convert empty ClassificationResults to JSON"  # MakeJsonFrom…Result
NO_REGRESSIONS = "Cannot convert empty RegressionResults to JSON"  # MakeJsonFromRegressionResult

# rapidjson, error/en.h: the `problem` of PARSE_ERROR, by how Python's json begins to say it.
PARSE_PROBLEMS = {
    "Expecting value": "Invalid value.",
    "Expecting property name": "Missing a name for object member.",
    "Illegal trailing comma before end of object": "Missing a name for object member.",
    "Illegal trailing comma before end of array": "Invalid value.",
    "Expecting ':'": "Missing a colon after a name of object member.",
    "Expecting ','": "Missing a comma or closing bracket after a member or an element.",
    "Unterminated string": "Missing a closing quotation mark in string.",
    "Invalid control character": "Invalid encoding in string.",
    "Invalid \\uXXXX escape": "Incorrect hex digit after \\u escape in string.",
    "Invalid \\escape": "Invalid escape character in string.",
    "Extra data": "The document root must not be followed by other values.",
}
SURROGATE = "The surrogate pair in string is invalid."
NUMBER_TOO_BIG = "Number too big to be stored in double."

# TensorFlow Serving has no such bounds: it would run out of memory or of stack.
TOO_DEEP = "JSON Parse error: nested deeper than {limit} levels"
TOO_LARGE = "The request has more than {limit} bytes"  # 413
DISCONNECTED = "The client went before its request was whole"  # 499, CANCELLED
# model_servers/http_server.cc; 400, FAILED_PRECONDITION
NO_ORIGIN = "Origin header is missing in CORS preflight"
INTERNAL = "The server failed; its log says why"  # 500
