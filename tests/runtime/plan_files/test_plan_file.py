import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cpu.native import RUNNABLE
from support.devices.caching import CachingDevice
from support.errors import error_code
from support.models.graphs import candidate, model

import neurald as nd
from neurald.drivers.cpu.artifact import read_artifact
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.errors import ResultCode as Code
from neurald.runtime.partitioning.partitioner import PartitionResult
from neurald.runtime.partitioning.placement import NOT_RUN
from neurald.runtime.plan.prepared_step import CacheOutcome
from neurald.runtime.plan.provided_plan import ProvidedPlan
from neurald.runtime.plan_files.keys import SigningKey, key_line
from neurald.service.demo.digits import MODEL, load_held_out_digits


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be(tmp_path / "here", monkeypatch)


def be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Continues as another user, whose cache, key and configuration are in a folder."""
    for variable in ("STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(folder / variable.lower()))
    monkeypatch.setenv("NEURALD_SECRET_FILE", str(folder / "secret"))


DIGITS = load_held_out_digits()


def inputs(compilation: nd.Compilation) -> "np.ndarray":
    operand = compilation.model.main.operands[compilation.model.inputs[0]]
    image = DIGITS.images[:1]
    return np.asarray(image, operand.type.dtype).reshape(operand.dimensions)


def expected() -> "np.ndarray":
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL)).finish()
    return compilation.run(inputs(compilation))[0]


def test_a_plan_is_loaded_without_compiling(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    (step,) = nd.save_plan(MODEL, path)
    assert (step.device, step.operations, step.reason) == ("cpu", 9, "")
    assert step.size_bytes > 1000
    compilation = nd.load_plan(path)
    (report,) = compilation.report.steps
    assert report.cache is CacheOutcome.HIT
    assert report.reason == ""
    assert "the plan file was used" in str(compilation.explain())
    assert compilation.explain().operations[0].reason == "in the plan file"
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())


def test_the_file_may_go_while_the_plan_is_used(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    compilation = nd.load_plan(path)
    path.write_bytes(b"")
    path.unlink()
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())


def test_another_machine_loads_it_if_it_trusts_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    line = key_line(SigningKey().public, "here")
    be(tmp_path / "there", monkeypatch)
    with pytest.raises(BadData, match=r"which is not trusted\. If you trust the machine that made it"):
        nd.load_plan(path)
    keys = tmp_path / "there" / "config" / "neurald" / "plan_keys"
    keys.mkdir(parents=True)
    (keys / "here.pub").write_text(line + "\n")
    assert nd.load_plan(path).report.steps[0].cache is CacheOutcome.HIT
    (keys / "here.pub").unlink()
    # What was verified before is refused, too, if its key is not trusted any more.
    with pytest.raises(BadData, match="not trusted"):
        nd.load_plan(path)
    named = tmp_path / "k.pub"
    named.write_text(line)
    compilation = nd.load_plan(path, trust=named)
    assert compilation.report.steps[0].cache is CacheOutcome.HIT
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())


def test_a_plan_of_several_devices_is_loaded_with_the_same_steps(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    devices = [CachingDevice("first"), nd.devices()[0]]
    made = nd.save_plan(MODEL, path, devices)
    loaded = nd.load_plan(path, [CachingDevice("first"), nd.devices()[0]])
    assert [step.device.name for step in loaded.plan.steps] == [each.device for each in made]
    assert all(each.cache is CacheOutcome.HIT for each in loaded.report.steps)


def test_operations_that_nobody_needs_may_be_missing() -> None:
    add, tanh = nd.OperationType.ADD, nd.OperationType.TANH
    subject = model("x", [(add, "x", "unread"), (tanh, "x", "y"), (tanh, "y", "z")], "z")
    candidates = [candidate("caching", model=subject)]

    def placed(operations: tuple[int, ...]) -> PartitionResult | str:
        plan = ProvidedPlan({}, [("caching", operations)], ())
        return plan.partition(subject, [CachingDevice()], candidates)

    found = placed((1, 2))
    assert isinstance(found, PartitionResult)
    assert [each.device for each in found.placements[0]] == [NOT_RUN, 0, 0]
    assert placed((0, 1)) == "graph 0: operation 2 is in no step"


def test_another_version_of_a_driver_compiles_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path, [CachingDevice(version="1")])
    device = CachingDevice(version="2")
    compilation = nd.load_plan(path, [device])
    assert len(device.compiled) == 1
    (report,) = compilation.report.steps
    assert report.cache is CacheOutcome.MISS
    assert "device version changed from 1 to 2" in report.reason
    assert "planned again: caching has version 2; it was made for 1" in str(compilation.explain())
    same = CachingDevice(version="1")
    assert nd.load_plan(path, [same]).report.steps[0].cache is CacheOutcome.HIT
    assert (len(same.compiled), len(same.loaded)) == (0, 1)


@pytest.mark.parametrize("used", RUNNABLE, ids=[each.name for each in RUNNABLE])
@pytest.mark.parametrize("made", RUNNABLE, ids=[each.name for each in RUNNABLE])
def test_code_for_other_features_of_the_processor_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Target, used: Target
) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path, [cpu_with(made, monkeypatch)])
    device, loaded = cpu_with(used, monkeypatch), list[str]()
    restored = CpuDevice.prepare_model_from_cache

    def noted(self: CpuDevice, artifact: Artifact, options: PrepareOptions) -> Any:
        loaded.append(read_artifact(artifact).executable.target)
        return restored(self, artifact, options)

    monkeypatch.setattr(CpuDevice, "prepare_model_from_cache", noted)
    compilation = nd.load_plan(path, [device])
    (report,) = compilation.report.steps
    assert set(loaded) <= {used.name}
    if made is used:
        assert (report.cache, report.reason) == (CacheOutcome.HIT, "")
    else:
        assert report.cache is CacheOutcome.MISS
        assert re.search(rf"device version changed from .*{made.name}\b.* to .*{used.name}\b", report.reason)
        assert "planned again: cpu has version" in str(compilation.explain())
    np.testing.assert_allclose(compilation.run(inputs(compilation))[0], expected(), atol=1e-6)


def cpu_with(target: Target, monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """Returns the CPU device of a processor that has only the features that a target needs."""
    monkeypatch.setattr("neurald.drivers.cpu.target.target.features", lambda: target.needs)
    device = CpuDevice()
    assert target.name in device.version
    return device


def test_a_device_more_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    compilation = nd.load_plan(path, [CachingDevice(), nd.devices()[0]])
    (report,) = compilation.report.steps
    assert (report.device, report.cache) == ("cpu", CacheOutcome.HIT)


def test_a_device_that_is_missing_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path, [CachingDevice()])
    compilation = nd.load_plan(path)
    assert "planned again: there is no device caching" in str(compilation.explain())
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())


def test_an_artifact_that_the_device_refuses_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path, [CachingDevice()])
    device = CachingDevice()

    def refuse() -> None:
        raise OpFailed("made by another installation")

    device.on_load = refuse
    (report,) = nd.load_plan(path, [device]).report.steps
    assert report.cache is CacheOutcome.MISS
    assert "cannot load the artifact of the plan: made by another installation" in report.reason
    assert len(device.compiled) == 1


def test_another_version_of_neurald_converts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    monkeypatch.setattr("neurald.runtime.plan_files.plan_file.__version__", "99.0")
    compilation = nd.load_plan(path)
    assert "converted again: neurald" in str(compilation.explain())
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    original = path.read_bytes()
    generator = random.Random(3)
    for _ in range(300):
        content = bytearray(original)
        if generator.random() < 0.2:
            del content[generator.randrange(1, len(content)) :]
        else:
            content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        path.write_bytes(content)
        with pytest.raises(BadData, match=r"digits\.plan"):
            nd.load_plan(path)
    path.write_bytes(original)
    nd.load_plan(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"x", bytes(4096), MODEL.read_bytes()):
        path = tmp_path / "other"
        path.write_bytes(content)
        assert error_code(nd.load_plan, path) is Code.BAD_DATA
    assert error_code(nd.load_plan, tmp_path / "none") is Code.BAD_DATA
    assert error_code(nd.load_plan, tmp_path) is Code.BAD_DATA
    assert error_code(nd.load_plan, "/dev/zero") is Code.BAD_DATA
    with pytest.raises(BadData, match="`neurald compile` makes them"):
        nd.load_plan(MODEL)


def test_a_plan_file_is_no_model(tmp_path: Path) -> None:
    nd.save_plan(MODEL, tmp_path / "digits.plan")
    with pytest.raises(BadData, match="plan file, which `neurald run`"):
        nd.load_tflite(tmp_path / "digits.plan")


def test_a_plan_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadState, match="cannot be written"):
        nd.save_plan(MODEL, tmp_path / "none" / "a.plan")


@pytest.mark.parametrize("path", ["", ".", "..", "/"])
def test_a_path_without_a_name_is_an_error(path: str) -> None:
    with pytest.raises(BadState, match="cannot be written"):
        nd.save_plan(MODEL, path)


def test_any_name_of_a_file_is_allowed(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9 <b>\n.tflite")
    source.write_bytes(MODEL.read_bytes())
    longest = tmp_path / ("x" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    nd.save_plan(source, longest)
    assert sorted(tmp_path.glob("[!h]*")) == sorted([source, longest])
    assert nd.load_plan(longest).report.steps[0].cache is CacheOutcome.HIT


def test_numbers_stand_for_members_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    low: Any = nd.Preference.LOW_POWER.value
    high: Any = nd.Priority.HIGH.value
    threads: Any = np.int64(1)
    nd.save_plan(MODEL, path, threads=threads, preference=low, priority=high)
    assert nd.load_plan(path).report.steps[0].cache is CacheOutcome.HIT


def test_wrong_arguments(tmp_path: Path) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(MODEL, path)
    wrong: Any
    for wrong in (5, "cpu", ["cpu", "cpu"], [None]):
        assert error_code(nd.save_plan, MODEL, path, wrong) is Code.BAD_DATA
        assert error_code(nd.load_plan, path, wrong) is Code.BAD_DATA
    for wrong in (5, b"key", [], "a\0b", "\ud800", "/dev/zero"):
        with pytest.raises(BadData):
            nd.load_plan(path, trust=wrong)
    for wrong in (5, "x", None):
        with pytest.raises(BadData, match="the preference is"):
            nd.save_plan(MODEL, path, preference=wrong)
        with pytest.raises(BadData, match="the priority is"):
            nd.save_plan(MODEL, path, priority=wrong)


def test_a_signed_plan_of_other_operations_or_devices_is_made_again(tmp_path: Path) -> None:
    """Another version of neurald may convert a file to another number of operations."""
    subject = model("x", [(nd.OperationType.TANH, "x", "y")], "y")
    candidates = [candidate("caching", model=subject)]
    for groups, reason in (
        ([("caching", (0, 1))], "graph 0: there is no operation 1"),
        ([("caching", (-1,))], "graph 0: there is no operation -1"),
        ([("other", (0,))], "there is no device other"),
    ):
        assert ProvidedPlan({}, groups, ()).partition(subject, [CachingDevice()], candidates) == reason


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_bytes_of_a_file_can_be_saved(tmp_path: Path, kind: Callable[[bytes], Any]) -> None:
    path = tmp_path / "digits.plan"
    nd.save_plan(kind(MODEL.read_bytes()), path, threads=1)
    compilation = nd.load_plan(path)
    assert compilation.report.steps[0].cache is CacheOutcome.HIT
    np.testing.assert_array_equal(compilation.run(inputs(compilation))[0], expected())
