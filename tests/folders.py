"""What folders hold."""

import pathlib


def files_of(folder):
    """`{relative name: bytes}` of the files in a folder and in those in it."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}
