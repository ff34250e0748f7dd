"""Packing of inputs and weights to the words and panels that a scheme multiplies."""
