"""What `serving/README.md` promises: signatures, each with a row and a request; tests by name."""

import ast
import json
import pathlib
import re
import types

from tiny_model import MODELS

from bert_tf.saved_model.signatures import DEFAULT, signatures

README = pathlib.Path(__file__).parents[2] / "serving" / "README.md"
APIS = {"classify": "classify", "regress": "regress"}  # of TF Serving; of other signatures predict


def all_signatures():
    """`{name: Signature}` of all kinds of models; of those for single texts where it is both."""
    found = {}
    for make_tokenizer, make_model, _ in MODELS.values():
        tokenizer = make_tokenizer()
        model = make_model(tokenizer)
        pair = getattr(getattr(model, "preprocessor", None), "pair", False)
        of_model = signatures(types.SimpleNamespace(model=model, tokenizer=tokenizer, pair=pair))
        found = {**of_model, **found} if pair else {**found, **of_model}
    del found[DEFAULT]
    return found


def requests():
    """`(API, body)` of every request to a model."""
    return [(api, json.loads(body)) for api, body in
            re.findall(r"/v1/models/\w+:(\w+) \\\n +-d '(.*)'", README.read_text())]


def test_the_examples_call_every_signature_with_its_inputs():
    text, every = README.read_text(), all_signatures()
    called = {request.get("signature_name", "serving_default"): (api, request)
              for api, request in requests()}
    assert set(called) == {*every, "serving_default"}
    for name, signature in every.items():
        api, request = called[name]
        assert api == APIS.get(name, "predict")
        row = re.search(rf"\| `{name}` \| .*? \| (.*?) \|", text).group(1)
        assert set(re.findall(r"`(\w+)`", row)) == set(signature.inputs)
        if api == "predict":
            first = request["inputs"] if "inputs" in request else request["instances"][0]
            assert not isinstance(first, dict) or set(first) == set(signature.inputs)
            assert isinstance(first, dict) or len(signature.inputs) == 1
        else:
            assert set(request["examples"][0]) == {"text"}


def test_the_tests_that_it_names_are_there():
    table = README.read_text().partition("| its tests of |")[2].partition("\n\n")[0]
    named = [(file, re.findall(r"`(\w+)`", names))
             for file, names in re.findall(r"`(\w+/\w+\.py)`: (`[^;|]*`)", table)]
    assert sum(len(names) for _, names in named) == table.count("`test_") > 30
    for file, names in named:
        tree = ast.parse((pathlib.Path(__file__).parent / file).read_text())
        assert set(names) <= {each.name for each in tree.body
                              if isinstance(each, ast.FunctionDef)}, file
