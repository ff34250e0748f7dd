"""What compiling drivers need around the compiler: processes, and pauses of the garbage collector."""
