"""Random weights and inputs of operators with quantised weights."""

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: Scales of three output channels.
CHANNEL_SCALES = (0.5, 0.25, 1.0)


def random_bytes(*shape: int) -> Array:
    """Returns numbers from -127 to 127, always the same."""
    return np.random.default_rng(1).integers(-127, 128, shape)


def exact_floats(*shape: int, seed: int = 0) -> Array:
    """Returns floats whose quantisation is exact, with and without a zero point."""
    x = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.float32)
    x.reshape(shape[0], -1)[:, 0] = 127
    return x
