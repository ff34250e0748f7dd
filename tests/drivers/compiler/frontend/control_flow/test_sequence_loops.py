import logging

import numpy as np
import pytest
from support.cpu.growing_lists import results
from support.models.control_flow import FLOAT, Graph, T
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.sequence_loops import may_have_loops
from neurald.drivers.compiler.frontend.control_flow.structured_model import BasicBlock, each_item
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.operations import DEFINITIONS

BATCH, SIZE, UNITS = 2, 3, 4
_RANDOM = np.random.default_rng(4)
_SCALARS = {
    "cell_activation": (T.INT32, 4),
    "cell_clip": (T.FLOAT32, 0.5),
    "projection_clip": (T.FLOAT32, 0.0),
}


def over(
    operation: str, steps: int, *, time_major: bool, with_states: bool, merged: bool = False
) -> nd.Model:
    """Creates an operation over a sequence, with the mandatory parts of a cell."""
    graph, kind = Graph(), nd.OperationType[operation]
    form = DEFINITIONS[kind].forms[2 * with_states + merged if operation.startswith("BI") else with_states]
    shapes = {"input": (steps, BATCH, SIZE) if time_major else (BATCH, steps, SIZE)}
    inputs, given = [], []
    for each in form.inputs:
        name = each.name
        if name in ("time_major", "merge_outputs") or name in _SCALARS:
            is_bool = "LSTM" in operation or operation.startswith("BI")
            flag = time_major if name == "time_major" else merged
            scalar = _SCALARS.get(name, (T.BOOL if is_bool else T.INT32, flag))
            index = graph.builder.add_operand(scalar[0])
            graph.builder.set_operand_value(index, scalar[1])
        elif name == "input" or name.endswith("_state_in"):
            index = graph.value(FLOAT, shapes.get(name, (BATCH, UNITS)))
            given.append(index)
        elif each.optional:
            index = graph.value(FLOAT, (0,))
            graph.builder.set_operand_value(index, None)
        else:
            shape = (UNITS, UNITS if "recurrent" in name else SIZE) if "weights" in name else (UNITS,)
            index = graph.value(FLOAT, shape)
            graph.builder.set_operand_value(index, _RANDOM.uniform(-1, 1, shape).astype(np.float32))
        inputs.append(index)
    outputs = [
        graph.value(
            FLOAT,
            (BATCH, UNITS) if "state" in each.name else (*shapes["input"][:2], UNITS * (1 + merged)),
        )
        for each in form.outputs
    ]
    graph.builder.add_operation(kind, inputs, outputs)
    return graph.finish(given, outputs)


def check(model: nd.Model, caplog: pytest.LogCaptureFixture) -> None:
    """Compares a model with references."""
    feeds = [
        _RANDOM.uniform(-1, 1, model.main.operands[index].dimensions).astype(np.float32)
        for index in model.main.inputs
    ]
    with caplog.at_level(logging.INFO, "neurald"):
        found, wanted = (results(model, each, *feeds) for each in (CpuDevice(), ReferenceDevice()))
    assert found is not None
    assert wanted is not None
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5)
    assert "on references" not in caplog.text


@sweep("with_states", [False, True])
@sweep("time_major", [False, True])
@sweep("operation", ["UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"])
@sweep("steps", [17, 20], full=[16, 33, 129, 300])
def test_long_sequences_are_loops(
    steps: int, operation: str, caplog: pytest.LogCaptureFixture, *, time_major: bool, with_states: bool
) -> None:
    check(over(operation, steps, time_major=time_major, with_states=with_states), caplog)


@sweep("merged", [False, True])
@sweep("operation", ["BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"])
@sweep("time_major", [False, True])
def test_long_sequences_in_both_directions(
    operation: str, caplog: pytest.LogCaptureFixture, *, time_major: bool, merged: bool
) -> None:
    check(over(operation, 19, time_major=time_major, with_states=not time_major, merged=merged), caplog)


def test_the_number_of_operations_does_not_depend_on_that_of_steps() -> None:
    for steps, parts in ((8, 0), (16, 0), (20, 1), (300, 1), (3001, 2)):
        model = over("UNIDIRECTIONAL_SEQUENCE_LSTM", steps, time_major=False, with_states=True)
        # Whether the cell is small is not looked at.
        assert may_have_loops(model.main) is (steps > 8)
        structured = structure_control_flow(model)
        assert structured.has_loops is (parts > 0)
        blocks = [each for each in each_item(structured.items) if isinstance(each, BasicBlock)]
        kinds = [structured.model.main.operations[n].type for each in blocks for n in each.operations]
        assert kinds.count(nd.OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM) == max(1, parts)
        assert structured.model.referenced == model.referenced


def test_sequences_of_larger_cells_are_loops_from_fewer_steps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing out all steps of a large cell would take long to compile, and be no faster."""
    for units, has_loops in ((4, False), (43, False), (44, True)):
        monkeypatch.setitem(globals(), "UNITS", units)
        model = over("UNIDIRECTIONAL_SEQUENCE_RNN", 16, time_major=True, with_states=False)
        assert structure_control_flow(model).has_loops is has_loops
