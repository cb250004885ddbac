"""Next commands for a model that was trained and exported: commands to paste into a shell."""

import shlex
import shutil

from bert_tf.storage import files

_LONGEST = 200  # characters of a text in a command


def python_command(module, *words):
    """Return the command line of an entry point; each word is quoted where the shell needs it."""
    return shlex.join(["python", "-m", f"bert_tf.{module}", *words])


def serve_command(export_dir):
    """Return the command that serves a model, in whose folder there are versions.

    It is `tensorflow_model_server`'s, where that is installed and reads the folder: it has no file
    system for stores.
    """
    flags = ["--port=8500", "--rest_api_port=8501", f"--model_name={files.base_name(export_dir)}",
             f"--model_base_path={files.absolute(export_dir)}"]
    if shutil.which("tensorflow_model_server") and not files.is_remote(export_dir):
        return shlex.join(["tensorflow_model_server", *flags])
    return python_command("serve", *flags)


def query_command(export_dir, text, **flags):
    """Return the command that queries the served model with a text.

    Args:
        export_dir: folder of the model.
        text: truncated where it is long.
        flags: further texts, None where there is none: `pair`, `question`, `query`; `pretokenize`.
    """
    given = [f"--{name}={_short(value)}" for name, value in flags.items() if value is not None]
    return python_command("query", files.base_name(export_dir), *given, "--", _short(text))


def print_next(commands):
    """Print commands, each below what it does.

    Args:
        commands: dict of what they do to the command lines.
    """
    print("\nnext:")
    for what, command in commands.items():
        print(f"  {what}:\n    {command}")


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[:_LONGEST]
