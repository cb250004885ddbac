"""Build `bert_tf_client`: `bert_tf.serving.client` and what it imports, under a name of its own.

The code stands in `bert_tf/` alone. What the client needs is found by following its imports; it is
copied to `src/`, the imports renamed, so that either distribution can be installed, and both: they
share no file. `bert_tf.serving.client` becomes `bert_tf_client` itself, `bert_tf.serving.wire`
`bert_tf_client.wire`, `bert_tf.errors` `bert_tf_client.errors` and so on.
"""

import ast
import pathlib
import re
import shutil

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY, SOURCES = HERE.parent.parent, HERE / "src"
CLIENT = "bert_tf.serving.client"
# Statements that import, and the extras that an error tells to install.
_IMPORT = re.compile(r"^(\s*(?:from|import) )bert_tf(?:\.serving(?:\.client)?)?\b", re.M)
_EXTRA = re.compile(r"\bbert_tf(?=\[)")


def module_path(name):
    """The file of a module, None if there is none of that name."""
    path = REPOSITORY.joinpath(*name.split("."))
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((each for each in found if each.is_file()), None)


def imported(path):
    """The names that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def needed():
    """`{module: file}` of the client, of what it imports, and of the packages that these are in."""
    found, left = {}, [CLIENT, *(f"{CLIENT}.{path.stem}" for path in module_path(
        CLIENT).parent.glob("[!_]*.py"))]
    while left:
        name = left.pop()
        path = module_path(name)
        # The names that `bert_tf` and `bert_tf.serving` have are not the client's.
        if name in found or path is None or name in ("bert_tf", "bert_tf.serving"):
            continue
        found[name] = path
        left += [each for each in imported(path) if each.startswith("bert_tf.")]
        left.append(name.rpartition(".")[0])
    return found


def copy():
    """Write `src/bert_tf_client` anew; what an earlier build left would come into the wheel."""
    for folder in (SOURCES, HERE / "build"):
        shutil.rmtree(folder, ignore_errors=True)
    for name, path in needed().items():
        new = _IMPORT.sub(r"\1bert_tf_client", f"import {name}").removeprefix("import ")
        target = SOURCES.joinpath(*new.split("."))
        target = target / path.name if path.name == "__init__.py" else target.with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _IMPORT.sub(r"\1bert_tf_client", path.read_text("utf-8"))
        text = _EXTRA.sub("bert_tf_client", text)
        if name == CLIENT:
            text += f"\n__version__ = {version()!r}\n"
        target.write_text(text, "utf-8")
    shutil.copy(REPOSITORY / "LICENSE", HERE)


def version():
    """That of `bert_tf`."""
    return re.search(r'^__version__ = "(.+)"', module_path("bert_tf").read_text("utf-8"), re.M)[1]


if __name__ == "__main__":
    if module_path(CLIENT):  # else this is a source distribution, which has them
        copy()
    setup()
