"""Models with control flow change from references to native code."""

import time

import numpy as np
import pytest
from support.cpu.first_tier import prepared, results
from support.models.control_flow import below, counting, loop

from neurald.drivers.cpu.first_tier import loop_model
from neurald.drivers.cpu.first_tier.loop_model import LoopModel


def test_executions_begin_natively_after_a_while_on_references(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loop(below(20.0, extra=1), counting(1, 1))
    arrays = [np.zeros(1, np.float32), np.ones(2, np.float32)]
    found = prepared(model)
    assert isinstance(found, LoopModel)
    function = found.create_array_function([(1,), (2,)], ())
    assert function is not None
    results(found, model, arrays)
    assert found.native is None
    assert function(*arrays) is None
    monkeypatch.setattr(loop_model, "_PATIENCE_S", 0.0)
    deadline = time.monotonic() + 30
    while found.native is None and time.monotonic() < deadline:
        assert results(found, model, arrays)[0].tolist() == [20]
    assert results(found, model, arrays)[0].tolist() == [20]
    direct = function(*arrays)
    assert direct is not None
    assert direct[0].tolist() == [20]


def test_an_execution_begins_again_when_its_model_is_bound() -> None:
    model = loop(below(2.0, extra=1), counting(1, 1))
    found, looks = prepared(model), 0
    assert isinstance(found, LoopModel)
    arrays = [np.zeros(1, np.float32), np.ones(2, np.float32)]
    look = found.look

    def bind(since_s: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            found.bind()
        look(since_s)

    found.look = bind  # type: ignore[method-assign]
    assert results(found, model, arrays)[0].tolist() == [2]
    assert looks == 3
