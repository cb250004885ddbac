"""From labelled text to a tuned, measured, served model: what `finetune` and `evaluate` wire."""
