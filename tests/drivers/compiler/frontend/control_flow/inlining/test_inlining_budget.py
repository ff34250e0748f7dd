"""The parts of a model share what may be inlined for them."""

from typing import Any

import numpy as np
import pytest

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.inlining import inlining_budget
from neurald.drivers.compiler.frontend.control_flow.inlining.inlining_budget import InliningBudget
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType

_MOST, _WHOLES = 50, 6


def _operand(kind: OperandType, lifetime: Lifetime, **fields: Any) -> Operand:
    shape = () if kind is OperandType.MODEL else (2,) if kind is OperandType.TENSOR_FLOAT32 else (1,)
    return Operand(type=kind, dimensions=shape, lifetime=lifetime, **fields)


def _graph(count: int, inner: int | None) -> Subgraph:
    """Returns a graph that applies as many IFs, one after the other, whose sides are one graph.

    Args:
        count: the number of IFs.
        inner: the number of that graph; None for a TANH in place of them.
    """
    operands = [
        _operand(OperandType.TENSOR_BOOL8, Lifetime.SUBGRAPH_INPUT),
        _operand(OperandType.TENSOR_FLOAT32, Lifetime.SUBGRAPH_INPUT),
    ]
    operations = []
    for number in range(count):
        source = len(operands) - 1
        is_last = number == count - 1
        if inner is not None:
            operands.append(_operand(OperandType.MODEL, Lifetime.SUBGRAPH, subgraph=inner))
        side = len(operands) - 1
        lifetime = Lifetime.SUBGRAPH_OUTPUT if is_last else Lifetime.TEMPORARY_VARIABLE
        operands.append(_operand(OperandType.TENSOR_FLOAT32, lifetime))
        result = len(operands) - 1
        kind = nd.OperationType.TANH if inner is None else nd.OperationType.IF
        inputs = (source,) if inner is None else (0, side, side, 0, source)
        operations.append(Operation(type=kind, inputs=inputs, outputs=(result,)))
    return Subgraph(
        operands=tuple(operands), operations=tuple(operations), inputs=(0, 1), outputs=(len(operands) - 1,)
    )


def _nested(depth: int, count: int) -> Model:
    """Returns a model that inlining makes larger by this factor for each level."""
    inner = [_graph(count, number + 1) for number in range(depth - 1)]
    return Model(main=_graph(count, 0), referenced=(*inner, _graph(1, None)))


@pytest.mark.parametrize("tier", ["optimized", "instant"])
def test_attempts_for_parts_are_limited_together(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many IFs could be inlined until the limit of one part is reached."""
    monkeypatch.setattr(inlining_budget, "_MAX_INLINED", _MOST)
    monkeypatch.setattr(inlining_budget, "_MAX_INLINED_PER_OPERATION", 0)
    spent: dict[int, int] = {}
    spend = InliningBudget.spend

    def noted(budget: InliningBudget, count: int) -> None:
        spent[id(budget)] = spent.get(id(budget), 0) + count
        spend(budget, count)

    monkeypatch.setattr(InliningBudget, "spend", noted)
    count, depth = 3 * _WHOLES, 2
    builder = nd.CompilationBuilder(_nested(depth, count), [CpuDevice()])
    builder.set_caching(None)
    builder.set_startup(nd.Startup(tier))
    x = np.array([0.5, -2], np.float32)
    (result,) = builder.finish().run(np.array([True]), x)
    expected = x
    for _ in range(count**depth):
        expected = np.tanh(expected)
    assert np.allclose(result, expected, rtol=1e-5)
    assert _MOST <= max(spent.values()) <= _WHOLES * _MOST


def test_a_part_has_the_limit_of_its_model_at_most() -> None:
    model = _nested(2, 3)
    budget = InliningBudget()
    most = budget.begin(model)
    assert most > 0
    for _ in range(_WHOLES):
        assert budget.begin(model) == most
        budget.spend(most)
    assert budget.begin(model) == 0
