"""Runs the benchmark of the CPU device: `python benchmarks/cpu` is `benchmarks/cpu/run.py`."""

from run import main

main()
