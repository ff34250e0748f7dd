"""Helper processes for compilations, and pauses of the garbage collector."""
