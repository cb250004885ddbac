"""Training of any model with the accounting methods: the loop never knows the task."""
