"""LiteRT's Interpreter, and what other packages use of it."""
