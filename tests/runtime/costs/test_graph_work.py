"""Costs of all operations at once are those of each."""

import math
import random

import numpy as np
import pytest
from support.models.graphs import FLOAT, graph, random_graph
from support.models.placement_problems import CAPABILITIES

import neurald as nd
from neurald.hal.device import Capabilities
from neurald.hal.model.graph import Subgraph
from neurald.runtime.costs.estimate import DeviceCosts, device_costs
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.costs.graph_work import GraphWork
from neurald.runtime.costs.table import MAX_BAND, CostTable, band_of, bands_of
from neurald.runtime.costs.work import OperationKind, kind_of, work_of

T = nd.OperationType
KINDS = (T.ADD, T.MUL, T.CONV_2D, T.FULLY_CONNECTED, T.TANH, T.SOFTMAX)


def work_of_graph(subject: Subgraph) -> GraphWork:
    return GraphWork(GraphArrays.of(subject))


def devices() -> list[DeviceCosts]:
    table = CostTable()
    for kind in (T.ADD, T.CONV_2D):
        for work in (64.0, 192.0, 1e6):
            table = table.observed(OperationKind(operation=kind.name, operand=FLOAT.name), work, work * 1e-9)
    measured = device_costs(table, CAPABILITIES)
    declared = device_costs(CostTable(), CAPABILITIES, weight=2.0)
    return [measured, declared]


@pytest.mark.parametrize("seed", range(10))
def test_costs_are_those_of_single_operations(seed: int) -> None:
    subject = random_graph(random.Random(seed), 40, KINDS)
    found = work_of_graph(subject)
    known = devices()
    costs = found.costs_on(known, relaxed=False)
    for position, operation in enumerate(subject.operations):
        work = work_of(subject, operation)
        assert found.work[position] == work
        kind = kind_of(subject, operation)
        expected = tuple(each.of(kind, FLOAT, work, relaxed=False) for each in known)
        for one, other, seconds in zip(
            costs.of(position), expected, costs.seconds[position].tolist(), strict=True
        ):
            assert one.source is other.source
            assert one.seconds == seconds == pytest.approx(other.seconds, rel=1e-12)
            assert one.energy == pytest.approx(other.energy, rel=1e-12)


def test_sizes_that_are_not_known_count_as_for_single_operations() -> None:
    subject = graph(
        "a b",
        [(T.ADD, "a b", "c"), (T.TANH, "c", "d")],
        "d",
        dimensions={"a": (0, 3), "b": None, "c": (2, 0)},
    )
    expected = [work_of(subject, operation) for operation in subject.operations]
    assert work_of_graph(subject).work.tolist() == expected


def test_a_type_that_is_not_listed_costs_infinitely_much() -> None:
    subject = graph("a", [(T.TANH, "a", "b")], "b", types={"a": nd.OperandType.TENSOR_BOOL8})
    capabilities = Capabilities(
        operand_performance={},
        relaxed_float32_scalar=CAPABILITIES.relaxed_float32_scalar,
        relaxed_float32_tensor=CAPABILITIES.relaxed_float32_tensor,
        if_performance=CAPABILITIES.if_performance,
        while_performance=CAPABILITIES.while_performance,
    )
    (cost,) = work_of_graph(subject).costs_on([DeviceCosts(capabilities=capabilities)], relaxed=False).of(0)
    assert cost.seconds == math.inf


def test_bands_of_arrays() -> None:
    work = np.array([0.0, 1.0, 1.1, 3.0, 1e6, 2.0**127, 1e300])
    assert bands_of(work).tolist() == [band_of(each) for each in work.tolist()]
    assert bands_of(work)[-1] == MAX_BAND
