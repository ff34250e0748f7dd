"""TFLite's forms: reductions, searches, softmax and normalisation along axes."""
