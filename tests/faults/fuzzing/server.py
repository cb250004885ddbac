"""A server on loopback that is sent any bytes, and must go on answering."""

TARGETS = ()
