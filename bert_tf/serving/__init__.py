"""Served models over the wire: the client, and a server for where the binary is absent."""
