"""A device whose models can be measured alone, and medians, for the programs of this folder."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.hal.device import Artifact, PrepareOptions

_WARM_UP_S = 0.5


def median_us(run: Callable[[], object], runs: int) -> float:
    """Returns the median of this many runs, after half a second of warm-up to raise clocks."""
    started = time.perf_counter()
    while time.perf_counter() - started < _WARM_UP_S:
        run()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return float(np.median(times)) * 1e6


class KeepingDevice(OpenClDevice):
    """Device that keeps the model it prepared last."""

    prepared: OpenClPreparedModel

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> OpenClPreparedModel:
        """Keeps a model from the cache."""
        self.prepared = super().prepare_model_from_cache(artifact, options)
        return self.prepared

    def _compiled(self, *arguments: Any) -> OpenClPreparedModel:
        self.prepared = super()._compiled(*arguments)
        return self.prepared
