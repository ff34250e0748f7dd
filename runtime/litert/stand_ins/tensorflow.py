"""Stands for the package `tensorflow` where this folder is in `sys.path`."""

from neurald.runtime.litert.program import stand_in

stand_in(__name__)
