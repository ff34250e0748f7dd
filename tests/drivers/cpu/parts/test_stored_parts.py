"""Artifacts of models compiled in parts are restored unchanged or refused."""

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from support.cpu.compiled_parts import in_parts
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.parts import stored_parts
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.drivers.cpu.parts.stored_parts import read_parts, write_parts
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.digests import DIGEST_BYTES, digest_of
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory

pytestmark = pytest.mark.quick

MODEL = in_parts(4)


@pytest.fixture(scope="module")
def device() -> Any:
    return CpuDevice()


@pytest.fixture(scope="module")
def written(device: Any) -> Artifact:
    prepared = device.prepare_model(MODEL, PrepareOptions())
    assert isinstance(prepared, ReferenceModel)
    artifact = write_parts(prepared.steps)
    assert artifact is not None
    return artifact


def read(device: Any, artifact: Artifact, model: nd.Model = MODEL) -> list[Any]:
    return read_parts(artifact, model, ArtifactLoader(device._target, threads=1).restore)


def changed(artifact: Artifact, change: Any) -> Artifact:
    """Returns the artifact with changed content and a valid digest."""
    start = len(stored_parts._MAGIC) + DIGEST_BYTES
    (graph,) = msgspec.msgpack.decode(artifact.model[0].view()[start:], type=stored_parts._Stored)
    content = msgspec.msgpack.encode(change(graph))
    return Artifact(
        model=(HostMemory(stored_parts._MAGIC + digest_of(content) + content),), data=artifact.data
    )


def test_steps_are_restored(device: Any, written: Artifact) -> None:
    (steps,) = read(device, written)
    kinds = [step.operations if isinstance(step, NativeSegment) else step for step in steps]
    assert sorted(
        position for each in kinds for position in (each if isinstance(each, tuple) else (each,))
    ) == list(range(len(MODEL.main.operations)))
    assert any(isinstance(step, NativeSegment) for step in steps)
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    for step in steps:
        if isinstance(step, NativeSegment):
            names = np.array([b"no", b"number"], object)
            given = [
                names if each.operand.type.dtype == object else values
                for each in step.native.executable.inputs
            ]
            found = [each for each in step.native.run_arrays(given) if each.dtype == np.float32]
            np.testing.assert_array_equal(found[-1], 4 * values * values)


def test_without_compiled_parts_there_is_no_artifact() -> None:
    assert write_parts([[0, 1, 2]]) is None


def with_parts(**changes: object) -> Any:
    """Returns a function that changes all compiled parts of a graph."""
    return lambda graph: (
        tuple(each if isinstance(each, int) else msgspec.structs.replace(each, **changes) for each in graph),
    )


@sweep(
    "change",
    [
        lambda graph: (),
        lambda graph: (graph, graph),
        lambda graph: (graph[:-1],),
        lambda graph: ((*graph, 0),),
        lambda graph: (tuple(range(7)),),
        lambda graph: ("text",),
        with_parts(inputs=(99,)),
        with_parts(inputs=()),
        with_parts(start=1 << 40),
        with_parts(size=-1),
        with_parts(artifact=b"?"),
    ],
)
def test_parts_that_do_not_match_the_model_are_refused(device: Any, written: Artifact, change: Any) -> None:
    with pytest.raises(BadData):
        read(device, changed(written, change))


def test_damage_is_noticed(device: Any, written: Artifact) -> None:
    whole = bytes(written.model[0].view())
    rng = random.Random(3)
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        with pytest.raises(BadData):
            read(device, Artifact(model=(HostMemory(damaged),), data=written.data))
    for length in range(0, len(whole), 97):
        with pytest.raises(BadData):
            read(device, Artifact(model=(HostMemory(whole[:length]),), data=written.data))
    with pytest.raises(BadData, match="expected one model and one data cache file"):
        read(device, Artifact(model=written.model))
