"""Imports `.tflite` files as models.

`file` reads an untrusted file, `conversion` converts it, `legalization` has a rule for every
operator, `graph` is what the rules write to, and `kept` keeps converted models in the cache.
"""

from neurald.runtime.tflite.load import load_tflite

__all__ = ["load_tflite"]
