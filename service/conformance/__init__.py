"""Conformance suite: checks the required behaviour on a device. `neurald conformance` runs it."""
