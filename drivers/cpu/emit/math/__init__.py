"""Functions, conversions and divisions as vector instructions."""
