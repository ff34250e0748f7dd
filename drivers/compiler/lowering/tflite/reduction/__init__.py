"""Lowers TFLite's reductions, searches, softmax and normalisation along axes."""
