"""Conversion between NCHW and NHWC images; kernels only support NHWC."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.machinery.layout import shape_from_nhwc, shape_to_nhwc


def to_nhwc(builder: Builder, value: Value, is_nchw: bool) -> Value:
    """Returns images as NHWC, unchanged if they already are."""
    if not is_nchw:
        return value
    return builder.compute(shape_to_nhwc(value.shape), lambda n, y, x, c: load(value, (n, c, y, x)))


def from_nhwc(builder: Builder, value: Value, is_nchw: bool) -> Value:
    """Returns NHWC images in the operation's layout."""
    if not is_nchw:
        return value
    return builder.compute(shape_from_nhwc(value.shape), lambda n, c, y, x: load(value, (n, y, x, c)))
