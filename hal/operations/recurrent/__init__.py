"""Recurrent cells and sequences of them."""
