"""Text to token ids and back, with ops that run inside an exported graph too."""
