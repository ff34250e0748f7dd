"""Arithmetic that references of TFLite's extension share: tables of functions, and the error function."""
