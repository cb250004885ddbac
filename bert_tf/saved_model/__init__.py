"""From a trained model to a SavedModel that TF Serving loads."""
