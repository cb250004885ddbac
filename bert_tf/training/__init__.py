"""How any model with the accounting methods is trained: the loop never knows the task."""
