"""Runs the benchmark of scaling: `python benchmarks/scaling` is `benchmarks/scaling/run.py`."""

from run import main

main()
