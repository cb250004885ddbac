"""Functions that a function calls, inlined: one graph without calls."""

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def body_of(function):
    """Return the `FunctionDef` that computes; a loaded signature does nothing but call it."""
    body = function.function_def
    calls = [node for node in body.node_def if node.op in _CALLS]
    if len(calls) != 1 or any(node.op not in (*_CALLS, "Identity", "NoOp")
                              for node in body.node_def):
        return body
    return library_of(function)[calls[0].attr["f"].func.name]


def library_of(function):
    """Return `{name: FunctionDef}` of all that a `ConcreteFunction` calls."""
    library = function.graph.as_graph_def().library.function
    return {each.signature.name: each for each in library}


def flat_graph(body, library):
    """Return the graph of a function and of all that it calls; loops and branches stay functions.

    What had to wait for a call, as code with side effects does, waits for a `NoOp` of its name.

    Args:
        body: `FunctionDef`.
        library: `{name: FunctionDef}` of the called ones.

    Returns: `(definition, outputs)`: a `GraphDef` with a placeholder for each argument, by its
        name, and the names of the result tensors.
    """
    definition, names = function_def_to_graph_def(body)
    outputs = [names[body.ret[argument.name]] for argument in body.signature.output_arg]
    nodes, results = [], {}
    for node in definition.node:
        if node.op in _CALLS:
            called = library[node.attr["f"].func.name]
            inside, inlined = _in_place_of(node, called, *flat_graph(called, library))
            nodes += inside
            results |= inlined
        else:
            nodes.append(node)
    for node in nodes:
        node.input[:] = [_followed(each, results) for each in node.input]
    return (tf.compat.v1.GraphDef(node=nodes, versions=definition.versions),
            [_followed(each, results) for each in outputs])


def _in_place_of(call, function, definition, outputs):
    """Return nodes that do what `call` does, and `{its result: tensor that is it}`."""
    waits = [each for each in call.input if each.startswith("^")]
    given = dict(zip((argument.name for argument in function.signature.input_arg), call.input,
                     strict=False))

    def outside(name):
        control = "^" if name.startswith("^") else ""
        node, _, output = name.removeprefix("^").partition(":")
        if node in given:
            return f"^{given[node].partition(':')[0]}" if control else given[node]
        return f"{control}{call.name}/{node}" + (f":{output}" if output else "")

    nodes = []
    for node in definition.node:
        if node.name in given:
            continue
        node.name = f"{call.name}/{node.name}"
        # Only what has a state can tell when it runs; others with control inputs are not fused.
        stateful = op_def_registry.get(node.op).is_stateful
        node.input[:] = [*map(outside, node.input), *(waits if stateful else ())]
        node.attr.pop("_class", None)  # names of nodes, for placing on devices
        nodes.append(node)
    results = [outside(each) for each in outputs]
    ends = [*(each.partition(":")[0] for each in results),
            *(f"{call.name}/{each}" for each in function.control_ret.values())]
    nodes.append(tf.compat.v1.NodeDef(
        name=call.name, op="NoOp", input=[*waits, *(f"^{end}" for end in dict.fromkeys(ends))]))
    return nodes, {f"{call.name}:{i}": each for i, each in enumerate(results)}


def _followed(name, results):
    """Return the tensor that the result of a call stands for, which may be the result of
    another."""
    while name in results or f"{name}:0" in results:
        name = results.get(name) or results[f"{name}:0"]
    return name
