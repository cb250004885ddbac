"""Models that are pre-trained on text without labels."""
