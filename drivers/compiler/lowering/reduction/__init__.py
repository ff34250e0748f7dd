"""Lowers reductions, searches, softmax and normalisation along axes."""
