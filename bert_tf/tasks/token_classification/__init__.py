"""A label for every word or character, and the entities that they make."""
