"""Choices of other policies as arrays equal the policies' own."""

import random

import numpy as np
import pytest
from support.models.graphs import FLOAT, candidate, only, random_graph

import neurald as nd
from neurald.hal.device import Performance
from neurald.hal.model.model import Model
from neurald.runtime.partitioning import placement, policy_tengine
from neurald.runtime.partitioning.grouping_android import group_into_steps
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.partitioning.min_cost.other_policies import OtherPolicies
from neurald.runtime.partitioning.placement import PlacementConstraints

T = nd.OperationType
KINDS = (T.ADD, T.MUL, T.TANH, T.FULLY_CONNECTED, T.SOFTMAX)
FAST = nd.Preference.FAST_SINGLE_ANSWER


@pytest.mark.parametrize("seed", range(60))
def test_they_choose_what_the_policies_choose(seed: int) -> None:
    rng = random.Random(seed)
    model = Model(main=random_graph(rng, rng.choice([1, 5, 40]), KINDS))
    count = len(model.main.operations)
    cpu = rng.choice([None, 0, 1])
    candidates = []
    for number in range(3):
        kinds = KINDS if number == (cpu or 0) else tuple(kind for kind in KINDS if rng.random() < 0.7)
        time = rng.choice([0.5, 1.0, 2.0])
        performance = {} if rng.random() < 0.2 else {FLOAT: Performance(exec_time=time, power_usage=1.0)}
        candidates.append(
            candidate(f"d{number}", only(*kinds), model=model, performance=performance, is_cpu=number == cpu)
        )
    preferred = {(0, rng.randrange(count)): (rng.randrange(3), "a rule") for _ in range(rng.choice([0, 2]))}
    demoted = {(0, rng.randrange(count)): "too small" for _ in range(rng.choice([0, 2]))}
    constraints = PlacementConstraints(preferred=preferred, demoted=demoted)
    able = np.array([[verdict.ok for verdict in each.verdicts[0]] for each in candidates]).T
    scores = np.array(
        [
            [
                each.capabilities.operand_performance.get(
                    FLOAT, Performance(exec_time=float("inf"), power_usage=1.0)
                ).exec_time
                for each in candidates
            ]
        ]
        * count
    )
    subject = OtherPolicies(
        model.main.operations,
        scores,
        able,
        {n: device for (_, n), (device, _) in preferred.items() if able[n, device]},
        {n for _, n in demoted},
        cpu,
    )
    placed = placement.find_best_device_for_each_operation(model, candidates, FAST, constraints)
    assert subject.android().tolist() == [each.device for each in placed[0]]
    placed = policy_tengine.place_operations(model, candidates, FAST, constraints)
    chosen, steps = subject.tengine()
    assert chosen.tolist() == [each.device for each in placed[0]]
    groups = policy_tengine.group_consecutive_operations(model, placed)
    assert [(device, tuple(found)) for device, found in steps] == [
        (group.device, group.operations) for group in groups if isinstance(group, StepGroup)
    ]
    assert group_into_steps(model, placed)
