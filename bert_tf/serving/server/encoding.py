"""Large answers are encoded in a thread, so that the event loop goes on between its steps.

Neither protobuf nor orjson gives up Python's lock within one call: what a single tensor or one call
of `orjson.dumps` takes, everybody waits for. What is between such calls, and what Python and NumPy
do, is shared with the event loop.
"""

import asyncio

AT_ONCE = 1 << 20  # bytes of arrays up to which a thread would cost more than it saves


async def encoded(outputs, function, *arguments):
    """`function(outputs, *arguments)`, in a thread where the outputs are large.

    Args:
        outputs: `{name: np.ndarray}`.
    """
    if sum(array.nbytes for array in outputs.values()) <= AT_ONCE:
        return function(outputs, *arguments)
    return await asyncio.to_thread(function, outputs, *arguments)
