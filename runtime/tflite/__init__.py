"""Imports `.tflite` files as models.

`flatbuffer` and `schema` read an untrusted file, `operands` converts tensors to operands,
`legalization` has a rule for every operator, and `graph` is what the rules write to.
"""

from neurald.runtime.tflite.load import load_tflite

__all__ = ["load_tflite"]
