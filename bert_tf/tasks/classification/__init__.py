"""Labels, any number of labels or a number for a text or a pair of texts."""
