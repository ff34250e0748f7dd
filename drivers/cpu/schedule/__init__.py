"""Chooses the loop order, vectorisation and splitting of a kernel."""
