"""Requests that come again with the same bytes."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.known_requests import KnownRequests
from neurald.service.inference.protocol.messages import message_type
from neurald.service.inference.protocol.tensors import InferenceRequest
from neurald.service.inference.server.regions.shared_memory import DIRECTORY, SharedMemoryRegions

KEY = f"neurald-known-{os.getpid()}"


@pytest.fixture
def regions() -> Iterator[SharedMemoryRegions]:
    path = Path(DIRECTORY, KEY)
    path.write_bytes(np.arange(32, dtype=np.float32).tobytes())
    found = SharedMemoryRegions()
    found.register("region", KEY, 0, 128)
    yield found
    found.close()
    path.unlink()


def message(*, offset: int = 0, in_region: bool = True, name: str = "") -> bytes:
    request = message_type("ModelInferRequest")(model_name="same", id=name)
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    if in_region:
        tensor.parameters["shared_memory_region"].string_param = "region"
        tensor.parameters["shared_memory_byte_size"].int64_param = 16
        tensor.parameters["shared_memory_offset"].int64_param = offset
    else:
        request.raw_input_contents.append(bytes(16))
    output = request.outputs.add(name="y")
    output.parameters["shared_memory_region"].string_param = "region"
    output.parameters["shared_memory_byte_size"].int64_param = 16
    request.outputs.add(name="z")
    encoded: bytes = request.SerializeToString()
    return encoded


def read(request: InferenceRequest) -> list[float]:
    content = bytearray(16)
    request.inputs[0].source.copy_into(memoryview(content))
    return list(map(float, np.frombuffer(content, np.float32)))


def test_a_request_comes_again(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    for _ in range(3):
        for offset in (0, 16):
            request = known.decode(message(offset=offset, name="a"))
            assert read(request) == [offset / 4 + each for each in range(4)]
            assert (request.model, request.id) == ("same", "a")
            assert [each.name for each in request.outputs] == ["y", "z"]
            assert request.outputs[0].region is not None
            assert request.outputs[0].region.size == 16
            assert request.outputs[1].region is None
            request.release()


def test_each_request_uses_its_regions(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    known.decode(message()).release()
    first, second = known.decode(message()), known.decode(message())
    regions.unregister("region")
    first.release()
    assert "region" in regions.status()
    assert read(second) == [0, 1, 2, 3]
    second.release()
    assert not regions.status()
    with pytest.raises(ServiceError, match="Unable to find"):
        known.decode(message())


def test_a_region_of_the_same_name_is_another_one(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    known.decode(message(offset=112)).release()
    regions.unregister("region")
    regions.register("region", KEY, 0, 64)
    with pytest.raises(ServiceError, match="Invalid offset"):
        known.decode(message(offset=112))
    regions.unregister("region")
    regions.register("region", KEY, 64, 64)
    request = known.decode(message())
    assert read(request) == [16, 17, 18, 19]
    request.release()


def test_no_descriptor_stays_open(regions: SharedMemoryRegions) -> None:
    def count() -> int:
        links = (str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        return sum(KEY in each for each in links)

    known = KnownRequests(regions)
    known.decode(message()).release()
    assert count() == 1
    regions.unregister("region")
    assert count() == 0


def test_tensors_in_messages_are_not_kept(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    for _ in range(2):
        known.decode(message(in_region=False)).release()
    assert not known._known
    for number in range(200):
        known.decode(message(name=str(number))).release()
    assert len(known._known) == 64


class _Large(bytes):
    """A message that takes long to look for."""

    def __hash__(self) -> int:
        raise AssertionError("it is looked for")


def test_large_messages_are_not_looked_for(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    request = known.decode(_Large(message(name="a" * 5000)))
    assert request.id == "a" * 5000
    request.release()
    with pytest.raises(AssertionError):
        known.decode(_Large(message()))
