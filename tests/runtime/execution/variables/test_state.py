"""Stateful models: the compilation keeps their variables from one execution to the next."""

import threading
from typing import Any

import numpy as np
import pytest
from support.devices.misbehaving import AnsweringDevice
from support.errors import error_code
from support.models.small import accumulator, add_model, ones
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import ExecutionResult
from neurald.hal.errors import OpFailed
from neurald.hal.model.model import StateVariable
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.runtime.execution.variables import variables_in_place

INITIAL = np.full((2, 3), 10, np.float32)


def compiled(model: nd.Model, *others: nd.Compilation) -> nd.Compilation:
    builder = nd.CompilationBuilder(model)
    for other in others:
        builder.share_state(other)
    return builder.finish()


def test_compilations_may_share_a_state() -> None:
    first = compiled(accumulator())
    second = compiled(accumulator(), first)
    assert [one.run(ones())[0][0, 0] for one in (first, second, first, second)] == [11, 12, 13, 14]
    assert second.state.lock is first.state.lock
    first.state.reset()
    assert second.state.value("total")[0, 0] == 10
    assert compiled(accumulator()).run(ones())[0][0, 0] == 11


def test_names_of_variables_are_checked() -> None:
    state = compiled(accumulator()).state
    before = state.value("total")
    wrong: Any
    for wrong in (None, 5, np.zeros(2), b"total", ["total"], object()):
        with pytest.raises(nd.WrongType, match="the name of a variable is"):
            state.value(wrong)
    for wrong in ("total", 5, object(), [5], [None], np.zeros(2)):
        with pytest.raises(nd.WrongType):
            state.reset(wrong)
    for unknown in (["other"], ("total", "tot")):
        with pytest.raises(nd.BadData, match=r"there is no variable .(other|tot)."):
            state.reset(unknown)
    np.testing.assert_array_equal(state.value("total"), before)


def test_single_variables_are_reset() -> None:
    compilation = compiled(accumulator())
    for names, expected in (([], 11), (["total"], 10)):
        compilation.state.reset()
        compilation.run(ones())
        compilation.state.reset(names)
        assert compilation.state.value("total")[0, 0] == expected


def test_states_that_cannot_be_shared() -> None:
    first, model = compiled(accumulator()), accumulator()
    other = replace(model, state=(StateVariable(name="total", initial=INITIAL + 1),))
    builder = nd.CompilationBuilder(other)
    with pytest.raises(nd.Error, match="total does not have the same type and initial value"):
        builder.share_state(first)
    assert builder.finish().run(ones())[0][0, 0] == 12


def test_the_state_lives_from_run_to_run() -> None:
    compilation = nd.CompilationBuilder(accumulator()).finish()
    for expected in (11, 12, 13):
        (result,) = compilation.run(ones())
        np.testing.assert_array_equal(result, np.full((2, 3), expected))
        np.testing.assert_array_equal(compilation.state.value("total"), result)
    compilation.state.reset()
    (result,) = compilation.run(ones())
    np.testing.assert_array_equal(result, np.full((2, 3), 11))


@sweep("limit", [0, 1 << 10])
def test_a_reusable_execution_uses_the_same_memories_again(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small variables are replaced in their memory; others alternate between two."""
    monkeypatch.setattr(variables_in_place, "_MAX_BYTES", limit)
    compilation = nd.CompilationBuilder(accumulator()).finish()
    output = np.empty((2, 3), np.float32)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, ones())
    execution.set_output(0, output)
    places = set[int]()
    for turn in range(6):
        if turn == 2:
            places.clear()
        execution.compute()
        assert (output == 11 + turn).all()
        places |= {id(value) for value in compilation.state.values()}
    assert len(places) == (1 if limit else 2)
    compilation.state.reset()
    other = compiled(accumulator(), compilation)
    for expected in (11, 13, 15):
        execution.compute()
        assert (output == expected).all()
        assert other.run(ones())[0][0, 0] == expected + 1


def test_every_compilation_has_its_own() -> None:
    model = accumulator()
    first, second = (nd.CompilationBuilder(model).finish() for _ in range(2))
    for compilation in (first, second):
        (result,) = compilation.run(ones())
        np.testing.assert_array_equal(result, np.full((2, 3), 11))
    np.testing.assert_array_equal(model.state[0].initial, np.full((2, 3), 10))


def test_executions_of_both_kinds_share_it() -> None:
    compilation = nd.CompilationBuilder(accumulator()).finish()
    execution = nd.Execution(compilation, reusable=True)
    output = np.zeros((2, 3), np.float32)
    execution.set_input(0, ones())
    execution.set_output(0, output)
    assert error_code(execution.set_input, 1, ones()) is nd.ResultCode.BAD_DATA
    execution.compute()
    execution.start_compute().wait()
    np.testing.assert_array_equal(output, np.full((2, 3), 12))
    assert execution.output_shapes() == [(2, 3)]
    (result,) = compilation.run(ones())
    np.testing.assert_array_equal(result, np.full((2, 3), 13))


def test_concurrent_executions_lose_no_update() -> None:
    compilation = nd.CompilationBuilder(accumulator()).finish()
    threads = [
        threading.Thread(target=lambda: [compilation.run(ones()) for _ in range(25)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(compilation.state.value("total"), np.full((2, 3), 110))


def test_a_failed_execution_leaves_it_as_it_was() -> None:
    def fail(_: Request) -> ExecutionResult:
        raise OpFailed("as told")

    compilation = nd.CompilationBuilder(accumulator(), [AnsweringDevice(fail)]).finish()
    assert error_code(compilation.run, ones()) is nd.ResultCode.OP_FAILED
    np.testing.assert_array_equal(compilation.state.value("total"), INITIAL)


def test_names() -> None:
    state = nd.CompilationBuilder(accumulator()).finish().state
    assert len(state) == 1
    assert state.names == ("total",)
    with pytest.raises(nd.Error, match="no variable 'nothing'; the variables are: total"):
        state.value("nothing")
    assert len(nd.CompilationBuilder(add_model()).finish().state) == 0
