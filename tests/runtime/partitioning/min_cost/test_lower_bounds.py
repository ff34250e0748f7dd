"""No choice costs less than the bounds say."""

import random

from support.models.placement_problems import random_problem
from support.sweeps import sweep

from neurald.runtime.partitioning.min_cost.lower_bounds import LowerBounds, bits


@sweep("seed", range(40))
def test_no_plan_takes_less(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 20), rng.choice([2, 3]), is_sequential=seed % 4 == 0)
    bounds = LowerBounds(problem)
    for _ in range(5):
        choice = [rng.choice(bounds.devices(options)) for options in bounds.options]
        # The search predicts plans of one step as it predicts those of several.
        seconds = problem.predicted_of(choice) + max(problem.launches)
        assert max(bounds.all_left) <= seconds
        for device, alone in zip(choice, bounds.alone, strict=True):
            assert alone[device] <= seconds
        for position, device in enumerate(choice):
            least = [
                sum(column)
                for column in zip(
                    *(
                        bounds.weighted[n][choice[n]] if n == position else min_of(bounds, n)
                        for n in range(problem.count)
                    ),
                    strict=True,
                )
            ]
            (changes,) = (changes for each, changes in bounds.changes[position] if each == device)
            for figure, all_left, change in zip(least, bounds.all_left, changes, strict=True):
                assert abs(figure - all_left - change) < 1e-9


def min_of(bounds: LowerBounds, position: int) -> list[float]:
    return list(map(min, zip(*bounds.weighted[position], strict=True)))


def test_bits() -> None:
    assert bits(0) == []
    assert bits(0b101001) == [0, 3, 5]
