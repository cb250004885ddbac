"""Between bytes and arrays, once: what server, client and warm-up requests share."""
