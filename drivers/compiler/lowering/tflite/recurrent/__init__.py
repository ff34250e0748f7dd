"""Lowers TFLite's recurrent cells and sequences."""
