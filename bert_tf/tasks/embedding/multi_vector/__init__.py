"""Late interaction: a vector for each token, of queries and of passages."""
