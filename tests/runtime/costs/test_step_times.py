"""Only some runs of a step refine the costs of its device."""

import numpy as np
import pytest
from support.models.addition import addition

import neurald as nd
from neurald.hal.registry import create_device
from neurald.runtime.costs import refinement
from neurald.runtime.costs.step_times import StepTimes


def test_the_shortest_run_up_to_each_power_of_two_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    refined: list[float] = []

    def refine(device: nd.Device, model: nd.Model, seconds: float) -> None:
        refined.append(seconds)

    monkeypatch.setattr(refinement, "refine_step", refine)
    times = StepTimes(create_device("reference"), addition(np.ones(1, np.float32)))
    for number in range(1, 20):
        times.add(float(number))
    assert refined == [3, 5, 9]
