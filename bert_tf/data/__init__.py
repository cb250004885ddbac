"""From text to batches: documents, chunks, input forms, records, masking, the input pipeline."""
