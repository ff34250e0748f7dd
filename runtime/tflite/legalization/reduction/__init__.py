"""Legalization: reductions, searches, softmax and normalisation along axes."""
