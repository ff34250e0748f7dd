"""Sacrificial processes, which repeat a death and narrow it down."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from support.daemon.processes import python_path
from support.devices.poisonous import chain

import neurald as nd
from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.crashes.outline import outline_of
from neurald.hal.crashes.pattern import ModelSignatures
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.rpc.wire.model import encode_model
from neurald.service.crashes.trial import model_of, part_of, smallest_part
from neurald.service.crashes.trial_job import TrialJob, TrialReport
from neurald.service.sandbox.mode import SandboxMode

ADD, MUL, SUB, DIV = OperationType.ADD, OperationType.MUL, OperationType.SUB, OperationType.DIV


@pytest.mark.parametrize("culprits", [{0}, {16}, {7}, {3, 4}, {0, 16}, {1, 8, 15}])
def test_the_smallest_part_is_found(culprits: set[int]) -> None:
    trials = 0

    def kills(part: Sequence[int]) -> bool:
        nonlocal trials
        trials += 1
        return culprits <= set(part)

    assert set(smallest_part(17, kills, lambda: True)) == culprits
    assert trials < 120


def test_without_time_the_best_part_so_far_is_returned() -> None:
    left = iter([True] * 4)
    part = smallest_part(64, lambda part: 5 in part, lambda: next(left, False))
    assert 5 in part
    assert 1 < len(part) < 64


def test_a_part_of_a_model_reads_what_others_compute() -> None:
    part = part_of(chain(ADD, MUL, SUB), [1])
    assert [each.type for each in part.main.operations] == [MUL]
    assert len(part.main.inputs) == 2
    assert len(part.main.outputs) == 1


def outline(model: Model) -> bytes:
    return outline_of(model, encode_model(model))


def test_an_outline_has_the_same_pattern_as_its_model() -> None:
    builder = nd.ModelBuilder()
    kind, indexes = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32
    value = builder.add_operand(kind, (4, 300))
    axes = builder.add_operand(indexes, (1,))
    memory = nd.Memory.allocate(64)
    memory.view(0, 4)[:] = (1).to_bytes(4, "little")
    builder.set_operand_value_from_memory(axes, memory, 0, 4)
    keep = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(keep, 0)
    output = builder.add_operand(kind, (4,))
    builder.add_operation(OperationType.MEAN, [value, axes, keep], [output])
    builder.identify_inputs_and_outputs([value], [output])
    model = builder.finish()
    assert ModelSignatures(model_of(outline(model))).pattern() == ModelSignatures(model).pattern()


def test_damaged_outlines_are_refused() -> None:
    for content in (
        b"",
        b"\xff",
        msgspec.msgpack.encode((b"", (1 << 40,), ())),
        msgspec.msgpack.encode((b"", (-1,))),
    ):
        with pytest.raises(BadData):
            model_of(content)


def tried(
    model: Model, folder: Path | None = None, variables: dict[str, str] | None = None, **changes: object
) -> TrialReport:
    job = TrialJob(
        driver="support.devices.poisonous:create",
        version=_version(),
        outline=outline(model),
        address="unix:///tmp/nowhere.sock",
        sandbox=SandboxMode.OFF,
    )
    done = subprocess.run(
        [sys.executable, "-m", "neurald.service.crashes.trial"],
        input=msgspec.msgpack.encode(msgspec.structs.replace(job, **changes)),
        env={**os.environ, "PYTHONPATH": python_path()} | (variables or {}),
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return msgspec.msgpack.decode(done.stdout, type=TrialReport)


def _version() -> str:
    from support.devices.poisonous import create

    return create().version


def _names(report: TrialReport) -> list[str]:
    assert report.pattern is not None
    return [each.name.split()[0] for each in report.pattern.operations]


def test_the_operation_that_kills_is_found() -> None:
    report = tried(chain(ADD, ADD, MUL, ADD))
    assert report.kills
    assert report.is_complete
    assert _names(report) == ["MUL"]
    assert _names(tried(chain(ADD, DIV))) == ["DIV"]


def test_a_model_that_does_not_kill_is_not_narrowed() -> None:
    report = tried(chain(ADD, ADD))
    assert (report.kills, report.pattern, report.problem) == (False, None, "")


@pytest.mark.full
def test_a_hang_is_repeated_only_if_the_driver_hung() -> None:
    model = chain(ADD, OperationType.MINIMUM)
    assert not tried(model, trial_s=1.0).kills
    assert _names(tried(model, trial_s=4.0, hangs=True)) == ["MINIMUM"]


def test_another_version_and_a_driver_that_cannot_start_kill_nothing() -> None:
    assert not tried(chain(ADD, MUL), version="other").kills
    assert not tried(chain(ADD, MUL), driver="nothing").kills


#: Dies if it has the installation's secret.
_SPY = """
import os
from neurald.hal.cache.secret import installation_secret, secret_path
from support.devices.poisonous import create as create_other

def create():
    if installation_secret() == secret_path().read_bytes():
        os.abort()
    return create_other()
"""


def test_a_driver_of_the_current_folder_is_tried_and_has_a_secret_of_its_own(tmp_path: Path) -> None:
    Path(tmp_path, "spy.py").write_text(_SPY)
    report = tried(
        chain(ADD, ADD), tmp_path, {SECRET_VARIABLE: str(tmp_path / "secret")}, driver="spy:create"
    )
    assert report == TrialReport(trials=2, is_complete=True)
