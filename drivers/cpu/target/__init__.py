"""Targets of code generation, routines, and the data of a compiled step."""
