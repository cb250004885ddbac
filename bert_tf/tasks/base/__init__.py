"""What types of tasks share: trainable models, preprocessors, labelled files, features."""
