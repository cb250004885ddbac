"""What the programs here have in common: flags, and a file of what came of the faults."""

import argparse
import json
import pathlib


def fault_parser(description, tries, of_tries, seed=0):
    """The parser of a program; `tries` and `seed` are defaults, `of_tries` is the help."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=tries, help=of_tries)
    parser.add_argument("--seed", type=int, default=seed, help="of all draws")
    parser.add_argument("--output", help="JSON file for the counts")
    return parser


def write_counts(path, counts):
    """Write plain values as JSON, unless the path is None."""
    if path:
        pathlib.Path(path).write_text(json.dumps(counts, indent=2) + "\n")
