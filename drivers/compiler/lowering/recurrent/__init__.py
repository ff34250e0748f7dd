"""Lowerings: recurrent cells and sequences of them."""
