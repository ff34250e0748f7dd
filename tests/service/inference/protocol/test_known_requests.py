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
    found = SharedMemoryRegions({})
    found.register("region", KEY, 0, 128)
    yield found
    found.close()
    path.unlink()


def message(*, offset: int = 0, in_region: bool = True, name: str = "", version: str = "") -> bytes:
    request = message_type("ModelInferRequest")(model_name="same", model_version=version, id=name)
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
    assert known.find(message(in_region=False))[0] is None
    for number in range(100):
        known.decode(message(offset=number)).release()
    assert sum(known.find(message(offset=number))[0] is not None for number in range(100)) == 64


@pytest.mark.parametrize("version", ["", "3"])
def test_requests_with_other_ids_are_the_same(regions: SharedMemoryRegions, version: str) -> None:
    known = KnownRequests(regions)
    found = set()
    for name in ("", "a", "ü" * 20, "a" * 127, "a" * 128):
        given = message(name=name, version=version)
        request = known.decode(given)
        assert (request.id, request.version) == (name, version)
        request.release()
        before, field = known.find(given)
        if len(name) < 128:
            assert field == (b"" if not name else bytes((0x1A, len(name.encode()))) + name.encode())
            found.add(id(before))
        else:
            assert (before, field) == (None, b"")
    assert len(found) == 1


def test_ids_in_other_places_are_found_by_the_decoder(regions: SharedMemoryRegions) -> None:
    """Of two ids, the last one counts."""
    known = KnownRequests(regions)
    known.decode(message()).release()
    for given in (message() + b"\x1a\x01b", message(name="a") + b"\x1a\x01b"):
        assert known.find(given)[0] is None
        for _ in range(2):
            request = known.decode(given)
            assert request.id == "b"
            request.release()
        assert known.find(given)[0] is None


@pytest.mark.parametrize("cut", [0, 1, 6, 7, 8])
def test_messages_that_end_early_are_not_understood(regions: SharedMemoryRegions, cut: int) -> None:
    given = message(name="abc")
    assert KnownRequests(regions).find(given[:cut]) == (None, b"")


def test_ids_that_are_no_text_are_refused(regions: SharedMemoryRegions) -> None:
    known = KnownRequests(regions)
    known.decode(message(name="a")).release()
    with pytest.raises(ServiceError, match="not understood"):
        known.decode(message(name="a").replace(b"\x1a\x01a", b"\x1a\x01\xff"))


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
