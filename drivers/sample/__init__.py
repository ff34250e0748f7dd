"""The driver to copy: everything that a driver does, on the CPU, in five flavours that make partitioning interesting."""
