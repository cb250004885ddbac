"""Find passages: a corpus, BM25 over its words, search among vectors, vectors stored small."""
