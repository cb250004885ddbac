"""A table of texts to Parquet by sentence-transformers, for `predict_corpus.py`.

    python benchmarks/peers/sentence_corpus.py MODEL DTYPE TEXTS.tsv OUTPUT.parquet

Read and written by pyarrow, block by block, so that memory stays bounded; `encode` sorts each block
by length.
"""

import sys

import pyarrow as pa
import torch
from pyarrow import csv, parquet
from sentence_transformers import SentenceTransformer

BATCH, BLOCK = 32, 16384


def main(model, dtype, source, output):
    loaded = SentenceTransformer(model, device="cpu",
                                 model_kwargs={"dtype": getattr(torch, dtype)})
    with csv.open_csv(source, parse_options=csv.ParseOptions(delimiter="\t", quote_char=False)
                      ) as reader:
        writer, waiting = None, []
        for batch in _blocks(reader, waiting):
            vectors = loaded.encode(batch["text"].to_pylist(), batch_size=BATCH,
                                    show_progress_bar=False, convert_to_tensor=True)
            vectors = vectors.float().numpy()
            column = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
            table = batch.append_column("embedding", column)
            writer = writer or parquet.ParquetWriter(output, table.schema,
                                                     use_dictionary=["text"])
            writer.write_table(table)
        writer.close()


def _blocks(reader, waiting):
    """Yield tables of `BLOCK` rows, the last one smaller."""
    for batch in reader:
        waiting.append(batch)
        while sum(map(len, waiting)) >= BLOCK:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, BLOCK).combine_chunks()
            waiting[:] = table.slice(BLOCK).to_batches()
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting).combine_chunks()


if __name__ == "__main__":
    main(*sys.argv[1:])
