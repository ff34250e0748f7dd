"""A device that computes wrong results is found when it is opened, and not used."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.models.chains import unary_chain

import neurald as nd
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime import self_test
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import OpFailed

RIGHT = self_test.program_text()


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "cache_directory", lambda: tmp_path)


@pytest.fixture
def compiles_wrongly(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes all devices compute a number of the check wrongly."""

    def let(column: int) -> None:
        text = RIGHT.replace(f"row[{column}] = ", f"row[{column}] = 1234567 ^ ")
        assert text != RIGHT
        monkeypatch.setattr(self_test, "program_text", lambda: text)

    return let


def test_a_right_device_is_checked_once(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    self_test.require_correct(opencl)
    monkeypatch.setattr(self_test, "wrong_results", lambda device: "everything")
    self_test.require_correct(opencl)


def test_all_that_is_wrong_is_named(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"(row\[\d+\]) = ", r"\1 = 1234567 ^ ", RIGHT)
    monkeypatch.setattr(self_test, "program_text", lambda: text)
    assert self_test.wrong_results(opencl).split(", ") == list(self_test._WHAT)


def test_a_wrong_device_is_checked_again(
    opencl: DeviceContext, compiles_wrongly: Callable[[int], None]
) -> None:
    compiles_wrongly(3)
    for _ in range(2):
        with pytest.raises(OpFailed, match="computes wrong results: remainders of integers;"):
            self_test.require_correct(opencl)


def test_the_cpu_takes_over_from_a_wrong_device(
    opencl: DeviceContext, compiles_wrongly: Callable[[int], None]
) -> None:
    compiles_wrongly(6)
    device = OpenClDevice(opencl.facts)
    model = unary_chain(nd.OperationType.ABS, shape=(4,))
    for _ in range(2):
        with pytest.raises(OpFailed, match="computes wrong results: loops with branches"):
            device.prepare_model(model, PrepareOptions())
    (verdict,) = device.supported_operations(model)
    assert "computes wrong results: loops with branches" in verdict.reason
    builder = nd.CompilationBuilder(model, [device, nd.devices()[0]])
    builder.set_caching(None)
    (result,) = builder.finish().run(np.array([-1, 2, -3, 4], np.float32))
    np.testing.assert_array_equal(result, [1, 2, 3, 4])
