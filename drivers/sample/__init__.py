"""Example driver to copy. It runs on the CPU, in five configurations that exercise partitioning."""
