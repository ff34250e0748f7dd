"""The benchmark of splits compares plans for two devices with each of both alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.devices.simulated import SimulatedDevice
from support.models.chains import chain

import neurald as nd


@pytest.fixture
def split(import_benchmark: Callable[..., Any]) -> Any:
    """The module `benchmarks/scheduler/split.py`."""
    return import_benchmark("split", "scheduler")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("can_run_all", [True, False])
def test_a_row(split: Any, tmp_path: Path, can_run_all: bool) -> None:
    slow = SimulatedDevice(
        "slow",
        default_s=5e-3,
        performance=0.1,
        supports=lambda kind: can_run_all or kind is not nd.OperationType.TANH,
    )
    cells = split.measure_model("a chain", chain(["ADD", "TANH", "MUL"]), nd.devices()[0], slow, 5, tmp_path)
    table = split.result_table([cells])
    row = dict(zip([column.name for column in table.columns], cells, strict=True))
    assert row["model"] == "a chain"
    assert (row["opencl_ms"] is None) != can_run_all
    # The device claims to be fast, which Android's rule believes.
    assert row["android_ms"] > 5
    assert row["ratio_android"] == pytest.approx(row["least_ms"] / row["android_ms"])
    alone = [row[name] for name in ("cpu_ms", "opencl_ms") if row[name] is not None]
    assert row["ratio_alone"] == pytest.approx(row["least_ms"] / min(alone))


def test_steps_are_shown_with_what_was_predicted(
    split: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = SimulatedDevice("slow", default_s=1e-3, performance=0.1)
    cpu, model = nd.devices()[0], chain(["ADD", "TANH"])
    arm = split.compiled(model, [cpu, slow], "android", tmp_path)
    assert split.decide(arm.compilation, split.random_inputs(model))
    split._print_steps(arm, (cpu, slow), split.random_inputs(model))
    shown = capsys.readouterr().out
    assert "step 0 on slow, 2 operations: predicted" in shown
    assert "; took " in shown
    assert "TANH: predicted" in shown
