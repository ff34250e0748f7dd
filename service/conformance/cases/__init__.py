"""Generates cases: models of a single operation with inputs and expected outputs."""
