"""Preparing with the cache: what devices are asked for, and what the reports say.

Restates TestCompilationCaching.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process, running_daemon
from support.devices.caching import (
    LOG_VARIABLE,
    CachingDevice,
    CachingPreparedModel,
    create_other,
    model_adding,
)
from support.devices.preparation import entries, flip, prepare
from support.models.addition import addition
from support.process.threads import refuse_threads
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.cache.entry import describe
from neurald.hal.cache.secret import SECRET_VARIABLE
from neurald.hal.cache.store import Cache
from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed, OutOfMemory
from neurald.hal.memory import mapped_file
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference, Priority
from neurald.hal.rpc.client.device import connect
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.plan import preparer as preparation
from neurald.runtime.plan.prepared_step import CacheOutcome, PreparedStep
from neurald.runtime.plan.preparer import Caching, Preparer

TOKEN = bytes(range(32))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_compiled_once(directory: Path) -> None:
    first, second = CachingDevice(), CachingDevice()
    report = prepare(directory, first)
    assert report.cache is CacheOutcome.MISS
    assert report.reason == "first use"
    assert report.is_stored
    assert report.key == entries(directory)[0].name
    assert report.compile_ms is not None
    assert 0 < report.compile_ms <= report.milliseconds
    assert [len(first.compiled), len(first.offered)] == [1, 0]
    again = prepare(directory, second)
    assert again.cache is CacheOutcome.HIT
    assert again.reason == ""
    assert again.key == report.key
    assert again.compile_ms == report.compile_ms
    assert again.milliseconds > 0
    assert [len(second.compiled), len(second.loaded)] == [0, 1]


def test_no_caching_no_files(directory: Path) -> None:
    device = CachingDevice()
    report = prepare(None, device)
    assert report.cache is CacheOutcome.OFF
    assert report.reason == "caching is off"
    assert device.compiled
    assert not directory.exists()


@pytest.mark.parametrize("device", [CachingDevice(model=0, data=0), ReferenceDevice()])
def test_a_device_that_needs_no_files_writes_none(directory: Path, device: nd.Device) -> None:
    report = prepare(directory, device)
    assert report.cache is CacheOutcome.OFF
    assert report.reason == "the device needs no cache files"
    assert not directory.exists()


@pytest.mark.parametrize(("model", "data"), [(1, 0), (0, 1), (2, 3), (32, 32)])
def test_as_many_files_as_the_device_needs(directory: Path, model: int, data: int) -> None:
    if model and data:
        prepare(directory, CachingDevice(model=model, data=data))
        assert prepare(directory, CachingDevice(model=model, data=data)).cache is CacheOutcome.HIT
    else:
        # This device needs more files than it announced, which is its own problem.
        assert not prepare(directory, CachingDevice(model=model, data=data)).is_stored


def test_the_device_gets_the_cache_key(directory: Path) -> None:
    keys = []

    class Device(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            keys.append(options.cache_key)
            return super().prepare_model(model, options)

    report = prepare(directory, Device())
    prepare(None, Device())
    assert keys == [bytes.fromhex(report.key), b""]


CHANGES: dict[str, tuple[dict[str, object], str]] = {
    "version": ({"device": CachingDevice(version="2")}, "device version changed from 1 to 2"),
    "device": ({"device": CachingDevice("other")}, "first use"),
    "token": ({"token": bytes(32)}, "the caller's token changed"),
    "preference": (
        {"options": PrepareOptions(preference=Preference.LOW_POWER)},
        "preference changed from FAST_SINGLE_ANSWER to LOW_POWER",
    ),
    "priority": ({"options": PrepareOptions(priority=Priority.HIGH)}, "priority changed from MEDIUM to HIGH"),
    "threads": ({"options": PrepareOptions(threads=3)}, "threads changed from None to 3"),
    "constants": ({"value": 5}, "the model's constants changed"),
    "graph": (
        {"model": addition(np.full(4, 3, np.float32), dynamic=True)},
        "the model's operations or operands changed",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_makes_another_key(directory: Path, change: str) -> None:
    changed, reason = CHANGES[change]
    prepare(directory, token=TOKEN)
    report = prepare(directory, **{"token": TOKEN, **changed})  # type: ignore[arg-type]
    assert report.cache is CacheOutcome.MISS
    assert report.reason == reason
    assert len(entries(directory)) == 2
    # Both entries exist now.
    assert prepare(directory, token=TOKEN).cache is CacheOutcome.HIT
    assert prepare(directory, **{"token": TOKEN, **changed}).cache is CacheOutcome.HIT  # type: ignore[arg-type]


def test_this_version_of_neurald_makes_another_key(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(directory)
    monkeypatch.setattr("neurald.hal.cache.key.__version__", "99")
    report = prepare(directory)
    assert report.cache is CacheOutcome.MISS
    assert report.reason.startswith("neurald changed from ")


def test_the_same_token_with_other_weights_gives_the_other_result(directory: Path) -> None:
    for value in (1, 2, 1, 2):
        prepare(directory, token=TOKEN, value=value)
    assert len(entries(directory)) == 2


# Models in files


@pytest.fixture
def _soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


def in_file(path: Path, value: float) -> Model:
    """Returns the model that adds this number, with its constant in a file."""
    if not path.exists() or path.read_bytes() != np.full(4, value, np.float32).tobytes():
        path.write_bytes(np.full(4, value, np.float32).tobytes())
        time.sleep(0.05)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return addition(np.full(4, value, np.float32), pool=FileMemory(descriptor, str(path)))
    finally:
        os.close(descriptor)


@pytest.mark.usefixtures("_soon_at_rest")
def test_a_file_that_has_not_changed_is_not_read_to_find_an_entry(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    key = prepare(directory, model=in_file(path, 3)).key
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "seal_constants", pytest.fail)
        report = prepare(directory, model=in_file(path, 3))
        assert report.cache is CacheOutcome.HIT
        assert report.key == key
    # It is the same model, wherever its constants are stored.
    assert prepare(directory, value=3).key == key
    # Another device finds that it has no entry.
    other = CachingDevice("other")
    report = prepare(directory, other, in_file(path, 3))
    assert report.reason == "first use"
    assert prepare(directory, other, in_file(path, 3)).cache is CacheOutcome.HIT


@pytest.mark.usefixtures("_soon_at_rest")
def test_a_file_that_has_changed_is_another_model(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    for outcome in (CacheOutcome.MISS, CacheOutcome.HIT):
        for value in (1.0, 2.0):
            assert prepare(directory, model=in_file(path, value), value=value).cache is outcome


@pytest.mark.usefixtures("_soon_at_rest")
def test_a_file_that_changes_while_it_is_prepared(directory: Path, tmp_path: Path) -> None:
    """The compiled model is not stored in this case."""
    path = tmp_path / "weights"
    first = prepare(directory, model=in_file(path, 1), value=1)

    class Late(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            path.write_bytes(np.full(4, 2, np.float32).tobytes())
            assert options.variants is not None
            options.variants.store(b"name", Artifact(), 1.0)
            return super().prepare_model(model, options)

    (entry,) = entries(directory)
    flip(entry / "head")
    report = prepare(directory, Late(), in_file(path, 1), value=2)
    assert report.cache is CacheOutcome.MISS
    assert report.key == first.key
    assert report.reason.endswith("not stored: the model's file was modified in the meantime")
    assert entries(directory) == [entry]
    time.sleep(0.05)
    for outcome in (CacheOutcome.MISS, CacheOutcome.HIT):
        assert prepare(directory, model=in_file(path, 2), value=2).cache is outcome


@pytest.mark.usefixtures("_soon_at_rest")
def test_a_start_without_an_entry_looks_into_the_cache_once(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, looked = in_file(tmp_path / "weights", 3), []
    for name in ("Cache", "constants_question"):
        whole = getattr(preparation, name)

        def counted(*given: object, name: str = name, whole: Callable[..., object] = whole) -> object:
            looked.append(name)
            return whole(*given)

        monkeypatch.setattr(preparation, name, counted)
    options = PrepareOptions(preference=Preference.FAST_SINGLE_ANSWER, priority=Priority.MEDIUM)
    preparer = Preparer(options, Caching(directory=directory), startup=nd.Startup.INSTANT)
    assert preparer.load(cpu_device(), model) is None
    step = preparer.prepare(cpu_device(), model)
    assert step.is_first_tier
    assert step.report.reason == "first use; this is the first tier"
    assert looked == ["Cache", "constants_question"]


@pytest.mark.usefixtures("_soon_at_rest")
def test_without_memory_to_seal_it_is_compiled_and_not_stored(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Model) -> Model:
        raise OutOfMemory("no memory")

    path = tmp_path / "weights"
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "seal_constants", full)
        report = prepare(directory, model=in_file(path, 3))
        assert report.cache is CacheOutcome.OFF
        assert report.reason == "no memory"
    prepare(directory, model=in_file(path, 3))
    # A file with known constants need not be sealed.
    monkeypatch.setattr(preparation, "seal_constants", full)
    assert prepare(directory, CachingDevice("other"), in_file(path, 3)).is_stored


# Several clients that want the same model


def test_threads_compile_once(directory: Path) -> None:
    device = CachingDevice()
    device.compile_s = 0.2
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(prepare(directory, device))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(device.compiled) == 1
    assert sorted(report.cache.value for report in reports) == ["hit"] * 7 + ["miss"]


@pytest.mark.slow
def test_eight_processes_compile_once(directory: Path, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from support.devices.caching import added, create_slow, model_adding
from neurald.hal.device import Artifact, PreparedModel, PrepareOptions
from neurald.hal.cache.entry import describe
from neurald.runtime.plan.preparer import Caching, Preparer
preparer = Preparer(PrepareOptions(), Caching(directory=Path(sys.argv[1])))
sys.stdin.read(1)
print(added(preparer.prepare(create_slow(), model_adding(3)).prepared_model))
"""
    log = tmp_path / "log"
    log.touch()
    environment = {**os.environ, LOG_VARIABLE: str(log), "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(directory)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("!")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["3.0\n"] * 8
    assert sorted(log.read_text().split()) == ["compiled"] + ["loaded"] * 7


def test_who_waits_too_long_compiles_too(directory: Path) -> None:
    key = prepare(directory).key
    (entry,) = entries(directory)
    flip(entry / "head")
    device = CachingDevice()
    with Cache(directory).lock(bytes.fromhex(key), 0.0) as is_held:
        assert is_held
        prepared = Preparer(PrepareOptions(), Caching(directory=directory), lock_wait_s=0.0).prepare(
            device, model_adding(3)
        )
    assert prepared.report.cache is CacheOutcome.MISS
    assert len(device.compiled) == 1


# In daemons


@pytest.mark.slow
def test_hits_survive_daemons_and_clients(directory: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {LOG_VARIABLE: str(log)}
    with daemon_process("support.devices.caching:create", environment=environment) as (process, address):
        device = connect(address)
        assert prepare(directory, device).cache is CacheOutcome.MISS
        assert prepare(directory, device).cache is CacheOutcome.HIT
        device.close()
        process.kill()
        process.wait()
    # Another daemon at another address, and a client that has not used the model before.
    with daemon_process("support.devices.caching:create", environment=environment) as (_, address):
        device = connect(address)
        report = prepare(directory, device)
        assert report.cache is CacheOutcome.HIT
        assert report.compile_ms is not None
        device.close()
    assert log.read_text().split() == ["compiled", "loaded", "loaded"]
    assert len(entries(directory)) == 1
    # The entry is still verified.
    flip(entries(directory)[0] / "head")
    with daemon_process("support.devices.caching:create", environment=environment) as (_, address):
        device = connect(address)
        assert prepare(directory, device).reason.startswith("the entry cannot be used")
        device.close()
    # The version of the driver still matters.
    with running_daemon("support.devices.caching:create_other") as address:
        device = connect(address)
        assert create_other().version == "2"
        assert prepare(directory, device).reason == "device version changed from 1 to 2"
        device.close()


@pytest.mark.slow
def test_a_daemon_of_another_installation_compiles_again(directory: Path, tmp_path: Path) -> None:
    with running_daemon("support.devices.caching:create") as address:
        device = connect(address)
        assert prepare(directory, device).is_stored
        device.close()
    environment = {SECRET_VARIABLE: str(tmp_path / "other")}
    with daemon_process("support.devices.caching:create", environment=environment) as (_, address):
        device = connect(address)
        report = prepare(directory, device)
        assert report.cache is CacheOutcome.MISS
        assert "was not made by this installation" in report.reason
        assert prepare(directory, device).cache is CacheOutcome.HIT
        device.close()


# Compilations


def compile_with(device: nd.Device, configure: Callable[[nd.CompilationBuilder], None]) -> nd.Compilation:
    builder = nd.CompilationBuilder(model_adding(3), [device])
    configure(builder)
    return builder.finish()


def test_compilations_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    outcomes = []
    for configure in (
        lambda builder: None,
        lambda builder: None,
        lambda builder: builder.set_caching(None),
        lambda builder: builder.set_caching(tmp_path / "own", TOKEN),
        lambda builder: builder.set_caching(str(tmp_path / "own"), TOKEN),
    ):
        compilation = compile_with(CachingDevice(), configure)
        outcomes.append([report.cache.value for report in compilation.report.steps])
        (result,) = compilation.run(np.zeros(4, np.float32))
        assert (result == 3).all()
    assert outcomes == [["miss"], ["hit"], ["off"], ["miss"], ["hit"]]
    assert len(entries(tmp_path / "neurald")) == len(entries(tmp_path / "own")) == 1


def test_an_artifact_is_stored_again_when_the_model_was_improved(directory: Path) -> None:
    """Of a model that was compiled, and of one that was loaded before it was improved."""

    class Improving(CachingPreparedModel):
        def call_when_improved(self, callback: Callable[[PreparedModel], None]) -> bool:
            self.callback = callback
            return True

        def artifact(self) -> Artifact:
            return device.written(self.stage)

        stage = b"first"

    class Device(CachingDevice):
        def written(self, stage: bytes) -> Artifact:
            return Artifact(model=(HostMemory(stage),), data=(HostMemory(b"data"),))

        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            made.append(Improving(model, None))
            return made[-1]

        def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:
            loaded.append(bytes(artifact.model[0].view()))
            made.append(Improving(model_adding(3), None))
            return made[-1]

    made: list[Improving] = []
    loaded: list[bytes] = []
    device = Device()
    for outcome, stage in ((CacheOutcome.MISS, b"second"), (CacheOutcome.HIT, b"third")):
        assert prepare(directory, device).cache is outcome
        made[-1].stage = stage
        made[-1].callback(made[-1])
    assert prepare(directory, device).cache is CacheOutcome.HIT
    assert loaded == [b"second", b"third"]
    device.version = "2"
    made[-1].stage = b"late"
    made[-1].callback(made[-1])
    device.version = "1"
    assert prepare(directory, device).cache is CacheOutcome.HIT
    assert loaded[-1] == b"third", "nothing is stored for a device that was updated meanwhile"


def test_each_step_has_its_own_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Part(CachingDevice):
        """A device that supports one operation type."""

        def __init__(self, name: str, kind: nd.OperationType) -> None:
            super().__init__(name)
            self.kind = kind

        def supported_operations(self, model: Model) -> tuple[nd.Verdict, ...]:
            return tuple(nd.Verdict(ok=operation.type is self.kind) for operation in model.main.operations)

    def compiled() -> nd.Compilation:
        devices = [Part("adds", nd.OperationType.ADD), Part("multiplies", nd.OperationType.MUL)]
        builder = nd.ModelBuilder()
        kind = nd.OperandType.TENSOR_FLOAT32
        first, between, last = (builder.add_operand(kind, (2,)) for _ in range(3))
        activation = builder.add_operand(nd.OperandType.INT32)
        builder.set_operand_value(activation, 0)
        builder.add_operation(nd.OperationType.ADD, [first, first, activation], [between])
        builder.add_operation(nd.OperationType.MUL, [between, between, activation], [last])
        builder.identify_inputs_and_outputs([first], [last])
        return nd.CompilationBuilder(builder.finish(), devices).finish()

    for outcome in (CacheOutcome.MISS, CacheOutcome.HIT):
        compilation = compiled()
        assert [(step.device, step.cache) for step in compilation.report.steps] == [
            ("adds", outcome),
            ("multiplies", outcome),
        ]
        (result,) = compilation.run(np.array([1, 3], np.float32))
        assert result.tolist() == [4, 36]
    assert len(entries(tmp_path / "neurald")) == 2


def test_a_step_is_prepared_again_when_the_time_for_compiling_is_long_over(directory: Path) -> None:
    seen = []

    class Device(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            seen.append(options.deadline_s)
            return super().prepare_model(model, options)

    preparer = Preparer(PrepareOptions(deadline_s=1.0), Caching(directory=directory))
    preparer.without_deadline().prepare(Device(), model_adding(1))
    assert seen == [None]


# Concurrent preparations


class Meeting(CachingDevice):
    """A device that reports to be remote, and that waits for the others while it prepares."""

    is_remote = True

    def __init__(self, name: str, barrier: threading.Barrier) -> None:
        super().__init__(name)
        self._barrier = barrier

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
        self._barrier.wait(10)
        return super().prepare_model(model, options)


def test_daemons_prepare_at_the_same_time() -> None:
    barrier = threading.Barrier(3)
    devices = [Meeting("one", barrier), Meeting("two", barrier), Meeting("three", barrier)]
    models = [model_adding(value) for value in (1, 2, 3)]
    outcomes = Preparer(PrepareOptions()).prepare_all(list(zip(devices, models, strict=True)))
    assert [each.report.device for each in outcomes if isinstance(each, PreparedStep)] == [
        "one",
        "two",
        "three",
    ]
    assert [device.compiled for device in devices] == [[model] for model in models]


def test_one_daemon_and_this_process_prepare_one_after_another() -> None:
    here, there = CachingDevice("here"), Meeting("there", threading.Barrier(1))
    models = [model_adding(value) for value in range(6)]
    Preparer(PrepareOptions()).prepare_all(
        [(here if n % 2 else there, each) for n, each in enumerate(models)]
    )
    assert [there.compiled, here.compiled] == [models[::2], models[1::2]]


def test_without_threads_devices_prepare_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [CachingDevice("one"), CachingDevice("two"), CachingDevice("three")]
    models = [model_adding(value) for value in (1, 2, 3)]
    refuse_threads(monkeypatch)
    outcomes = Preparer(PrepareOptions()).prepare_all(list(zip(devices, models, strict=True)))
    assert all(isinstance(each, PreparedStep) for each in outcomes)
    assert [device.compiled for device in devices] == [[model] for model in models]


@sweep("error", [OpFailed("no"), KeyboardInterrupt()])
def test_nothing_more_is_begun_after_a_failure(error: BaseException) -> None:
    class Failing(CachingDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:
            raise error

    here, failing, there = CachingDevice("here"), Failing("failing"), Meeting("there", threading.Barrier(1))
    wanted = [
        (here, model_adding(1)),
        (failing, model_adding(2)),
        (failing, model_adding(3)),
        (there, model_adding(4)),
    ]
    outcomes = Preparer(PrepareOptions()).prepare_all(wanted)
    assert outcomes[1] is error
    assert outcomes[2] is None
    assert len(here.compiled) <= 1


def test_a_model_in_words() -> None:
    assert describe(model_adding(1)) == "1 operation (1 ADD), 20 B of constants"
