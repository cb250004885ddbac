"""The definitions of a function and of those that it calls."""

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
