"""Passes about contractions: convolutions, matrix products, and what surrounds them."""
