"""Legalization: recurrent cells and sequences of them."""
