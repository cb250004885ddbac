"""TensorFlow without Keras, for commands and processes that read text or run graphs.

`import tensorflow` imports Keras for what that registers, and TensorFlow Text for two layers; it
takes two fifths of the time until a process can begin.
"""

import gc
import importlib
import sys
import types

_LAYERS = "tensorflow_text.python.keras"


def import_without_keras(*names):
    """Import modules as if Keras were not installed; whoever imports it later finds it.

    Only for processes of our own: `tensorflow.keras` is no module there, `tensorflow_text.keras` is
    empty, and what is imported is never looked through for garbage, which takes a seventh of the
    time. Where Keras or TensorFlow is imported already, nothing is kept out.

    Args:
        names: `tensorflow`, and after it perhaps `tensorflow_text`.

    Raises:
        ImportError: one of them is not installed.
    """
    if sys.modules.keys().isdisjoint(("tensorflow", "keras")):
        out = {"keras": None, _LAYERS: types.ModuleType(_LAYERS)}
        sys.modules.update(out)
    else:
        out = ()
    collects = gc.isenabled()
    gc.disable()
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        for name in out:
            del sys.modules[name]
        if out:
            gc.freeze()
        if collects:
            gc.enable()
