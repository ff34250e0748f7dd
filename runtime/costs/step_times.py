"""Chooses the runs of a step whose times refine the costs of its device.

The first two are left out, because they load code and memory. Then the shortest time counts,
whenever the number of runs is a power of two: other programs only make runs longer.
"""

import math
from typing import Final

from neurald.hal.device import Device
from neurald.hal.model.model import Model

_FIRST_RUNS: Final = 2


class StepTimes:
    """Collects the times of the runs of one step on one device.

    Args:
        device: the device that runs the step.
        model: the model of the step.
    """

    def __init__(self, device: Device, model: Model) -> None:
        self._device = device
        self._model = model
        self._runs = 0
        self._shortest_s = math.inf

    def add(self, seconds: float) -> None:
        """Adds the time of a run, from the call of the device to its return."""
        self._runs = runs = self._runs + 1
        if runs <= _FIRST_RUNS:
            return
        shortest_s = self._shortest_s = min(self._shortest_s, seconds)
        if not runs & (runs - 1):
            from neurald.runtime.costs.refinement import refine_step  # slow to import

            self._shortest_s = math.inf
            refine_step(self._device, self._model, shortest_s)
