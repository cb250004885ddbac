"""What `fuzz.py` feeds: small functions of bytes, by the part of the package that they read."""
