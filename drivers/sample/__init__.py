"""Example driver to copy, on the CPU, in five flavours that exercise partitioning."""
