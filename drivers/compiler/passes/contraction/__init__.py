"""Passes about contractions (convolutions and matrix products) and the nodes around them."""
