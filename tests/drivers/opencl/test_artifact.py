"""Cached models run again in another process, and damage is detected before it does harm."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.opencl.models import Models, expect_close, random_inputs, random_model, run
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.drivers.opencl.artifact import read_artifact, write_artifact
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.executable import Executable
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import BadData, Error, OpFailed
from neurald.hal.memory.pool import HostMemory

SEED = 3
OPTIONS = PrepareOptions(cache_key=b"k" * 32)
_TESTS = Path(__file__).parents[2]

#: Loads the artifact of two files, runs it and writes its outputs to files.
_PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from support.opencl.models import random_inputs, random_model, run
from neurald.drivers.opencl.device import create
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.memory.pool import HostMemory
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
files = [HostMemory((folder / name).read_bytes()) for name in ("model", "data")]
prepared = create().prepare_model_from_cache(Artifact(model=files[:1], data=files[1:]), PrepareOptions())
model = random_model(seed)
np.savez(folder / "outputs.npz", *run(prepared, model, random_inputs(model)))
"""


@pytest.fixture(scope="session")
def device(opencl: DeviceContext) -> OpenClDevice:
    return OpenClDevice(opencl.facts)


@pytest.fixture(scope="session")
def artifact(device: OpenClDevice) -> Artifact:
    found = device.prepare_model(random_model(SEED), OPTIONS).artifact()
    assert found is not None
    return found


def contents(artifact: Artifact) -> tuple[bytes, bytes]:
    return bytes(artifact.model[0].view()), bytes(artifact.data[0].view())


def made_of(model: bytes, data: bytes) -> Artifact:
    return Artifact(model=(HostMemory(model),), data=(HostMemory(data),))


def test_a_model_from_a_cache_computes_the_same(device: OpenClDevice, artifact: Artifact) -> None:
    model = random_model(SEED)
    inputs = random_inputs(model)
    prepared = device.prepare_model_from_cache(artifact, OPTIONS)
    expect_close(run(prepared, model, inputs), run(device.prepare_model(model, OPTIONS), model, inputs), 0)
    assert run(prepared, model, inputs)
    again = prepared.artifact()
    assert again is not None
    assert contents(again)[1] == contents(artifact)[1]


def test_artifacts_need_a_cache_key(device: OpenClDevice, artifact: Artifact) -> None:
    assert device.prepare_model_from_cache(artifact, PrepareOptions()).artifact() is None


def test_another_process_runs_the_artifact(artifact: Artifact, tmp_path: Path) -> None:
    for name, content in zip(("model", "data"), contents(artifact), strict=True):
        (tmp_path / name).write_bytes(content)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path), str(SEED)],
        check=True,
        timeout=120,
        env=_environment(),
    )
    model = random_model(SEED)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, random_inputs(model))
    with np.load(tmp_path / "outputs.npz") as found:
        expect_close([found[name] for name in found.files], expected, 1e-4)


def _environment() -> dict[str, str]:
    paths = (str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def test_every_truncation_is_refused(device: OpenClDevice, artifact: Artifact) -> None:
    model, data = contents(artifact)
    for length in (0, 4, 8, 39, 40, 41, len(model) // 2, len(model) - 1):
        with pytest.raises(BadData):
            device.prepare_model_from_cache(made_of(model[:length], data), OPTIONS)
    for length in (0, len(data) - 1):
        with pytest.raises(BadData, match="bytes of constants"):
            device.prepare_model_from_cache(made_of(model, data[:length]), OPTIONS)


def test_every_flipped_bit_is_refused(device: OpenClDevice, artifact: Artifact) -> None:
    model, data = contents(artifact)
    generator = np.random.default_rng(0)
    for position in (*range(64), *generator.integers(64, len(model), 200)):
        damaged = bytearray(model)
        damaged[position] ^= 1 << int(generator.integers(8))
        with pytest.raises(BadData):
            device.prepare_model_from_cache(made_of(bytes(damaged), data), OPTIONS)


def test_other_files_are_refused(device: OpenClDevice, artifact: Artifact) -> None:
    model, data = contents(artifact)
    files = HostMemory(model), HostMemory(data)
    for wrong in (
        Artifact(model=files, data=files),
        Artifact(model=(), data=files[1:]),
        Artifact(model=files[:1], data=()),
        Artifact(model=files[1:], data=files[:1]),
    ):
        with pytest.raises(BadData):
            device.prepare_model_from_cache(wrong, OPTIONS)


def executable_of(artifact: Artifact) -> tuple[Executable, bytes, np.ndarray]:
    return read_artifact(artifact)[:3]


def test_the_binary_of_another_device_is_refused(device: OpenClDevice, artifact: Artifact) -> None:
    executable, binary, constants = executable_of(artifact)
    damaged = bytes((binary[0] ^ 1,)) + binary[1:]
    with pytest.raises(OpFailed, match="damaged or was built for another device"):
        device.prepare_model_from_cache(write_artifact(executable, damaged, constants), OPTIONS)


@sweep("field", ["locations", "status", "workspace", "groups", "local_size", "numbers", "extents"])
def test_calls_that_leave_their_buffers_are_refused(artifact: Artifact, field: str) -> None:
    executable, binary, constants = executable_of(artifact)
    wrong: dict[str, list[object]] = {
        "locations": [
            (BufferLocation(Base.ARENA, executable.arena_bytes + 1),),
            (BufferLocation(Base.CONSTANTS, executable.constants_bytes + 1),),
            (BufferLocation(Base.ARENA, -1),),
        ],
        "status": [-1, 1 << 40],
        "workspace": [-1, executable.arena_bytes + 1],
        "groups": [-1],
        "local_size": [0, -1],
        "numbers": [(1 << 31,), (0, -(1 << 31) - 1)],
        "extents": [(1 << 31,)],
    }
    for value in wrong[field]:
        call = msgspec.structs.replace(executable.calls[0], **{field: value})
        changed = msgspec.structs.replace(executable, calls=(call, *executable.calls[1:]))
        with pytest.raises(BadData):
            read_artifact(write_artifact(changed, binary, constants))


@sweep("which", ["inputs", "outputs"])
def test_invalid_ports_are_refused(artifact: Artifact, which: str) -> None:
    executable, binary, constants = executable_of(artifact)
    port = getattr(executable, which)[0]
    for changes in (
        {"offset": -1},
        {"offset": executable.arena_bytes - port.size_bytes + 1},
        {"size_bytes": port.size_bytes + 4},
        {"dimensions": (-1, *port.dimensions[1:])},
        {"type": 12345},
    ):
        changed = msgspec.structs.replace(
            executable, **{which: (msgspec.structs.replace(port, **changes), *getattr(executable, which)[1:])}
        )
        with pytest.raises(BadData):
            read_artifact(write_artifact(changed, binary, constants))


def test_other_structures_are_refused(artifact: Artifact) -> None:
    model, data = contents(artifact)
    for body in (b"", b"\x00", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode({"executable": None})):
        checksum = hashlib.sha256(body).digest()
        with pytest.raises(BadData):
            read_artifact(made_of(model[:8] + checksum + body, data))


def test_missing_kernels(device: OpenClDevice, artifact: Artifact) -> None:
    executable, binary, constants = executable_of(artifact)
    call = msgspec.structs.replace(executable.calls[0], kernel="missing")
    one = executable.persistent
    one = None if one is None else msgspec.structs.replace(one, kernel="missing")
    changed = msgspec.structs.replace(executable, calls=(call, *executable.calls[1:]), persistent=one)
    with pytest.raises(Error, match="missing"):
        device.prepare_model_from_cache(write_artifact(changed, binary, constants), OPTIONS)


def test_models_without_constants(device: OpenClDevice) -> None:
    models = Models()
    model = models.finish(models.add(nd.OperationType.ABS, [models.input()]))
    artifact = device.prepare_model(model, OPTIONS).artifact()
    assert artifact is not None
    inputs = random_inputs(model)
    (result,) = run(device.prepare_model_from_cache(artifact, OPTIONS), model, inputs)
    np.testing.assert_array_equal(result, np.abs(inputs[0]))
