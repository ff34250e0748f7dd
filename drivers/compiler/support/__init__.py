"""Worker processes for compilation, pauses of the garbage collector, and files of artifacts."""
