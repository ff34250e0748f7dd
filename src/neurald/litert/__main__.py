"""Entry point for `python -m neurald.litert`."""

import sys

from neurald.runtime.litert.program import run_program

run_program(sys.argv[1:])
