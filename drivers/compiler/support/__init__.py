"""Worker processes for compilation, and pauses of the garbage collector."""
