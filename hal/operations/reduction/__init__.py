"""Reductions, searches, softmax and normalisation along axes."""
