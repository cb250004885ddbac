"""A sixth type of task, for the test that a folder and a line in the registry are enough."""
