"""How many rows there are to predict, for the time that is left."""

import gzip
import zlib

from bert_tf.storage import files, local_copies

_BLOCK = 1 << 20


def count_rows(sources):
    """Return about how many rows files have: of text their lines; None where it is not known.

    Args:
        sources: of a `Rows`.
    """
    counts = [_count(source) for source in sources if source.names]
    return None if None in counts else sum(counts)


def _count(source):
    if source.holds == ".parquet":
        from pyarrow import parquet

        with local_copies.staged(source.path) as local:
            return parquet.read_metadata(local).num_rows
    if files.is_remote(source.path) or source.holds == ".json":
        return None  # it would be read twice
    try:
        with files.explained("read", source.path), files.open_binary(source.path) as stream:
            lines = sum(data.count(b"\n") for data in iter(lambda: stream.read(_BLOCK), b""))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return None  # whoever reads the rows tells the line
    return lines - (source.holds is None and source.is_table and source.form.header is not False)
