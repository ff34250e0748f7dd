"""Trials of plans against single devices that run the whole model."""
