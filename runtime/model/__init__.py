"""Helpers for building models, and analyses of models that precede the choice of devices."""
