"""Quantisation of floats as an expression, and floats for which it is difficult."""

import numpy as np
from support.cpu.native import Array

from neurald.drivers.compiler.ir.expression import Expression, apply, clamp
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar

_RANDOM = np.random.default_rng(23)
SCALES = [0.05, 1.0, 1 / 3, 0.1, 7.3e-4, 12.7, 1e-30, *np.exp(_RANDOM.uniform(-9, 3, 8)).astype(np.float32)]
RANGES = {Scalar.INT8: (-128, 127), Scalar.UINT8: (0, 255), Scalar.INT16: (-300, 300)}


def quantised(x: Expression, scale: float, kind: Scalar, zero_point: int = 3) -> Expression:
    """Returns an expression rounded with ties away from zero and clamped."""
    low, high = (float(limit - zero_point) for limit in RANGES[kind])
    rounded = clamp(apply(Op.ROUND_AWAY, x / scale), low, high).to(Scalar.INT32)
    return (rounded + zero_point).to(kind)


def samples(scale: float) -> Array:
    """Returns floats of all magnitudes, and floats next to rounding boundaries."""
    between = ((np.arange(-310, 310) + 0.5) * scale).astype(np.float32)
    near = (between.view(np.int32) + np.arange(-3, 4, dtype=np.int32)[:, None]).view(np.float32).ravel()
    bits = _RANDOM.integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([0, 1e-45, 1e-40, 3e38, np.inf, np.nan], np.float32)
    whole = (_RANDOM.uniform(-400, 400, 3000) * scale).astype(np.float32)
    return np.concatenate([near, bits, edges, -edges, whole])
