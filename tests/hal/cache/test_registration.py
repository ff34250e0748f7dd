"""Restates TestCompilationCaching: a device with invalid cache files is not registered."""

import pytest
from support.devices.caching import CachingDevice
from support.sweeps import sweep

from neurald._proto import device_pb2
from neurald.hal.device import MAX_CACHE_FILES, CacheFilesNeeded
from neurald.hal.errors import BadData, Error
from neurald.hal.registry import create_device
from neurald.hal.rpc.wire.device import description_from_wire, description_to_wire


@sweep(("model", "data"), [(0, 0), (32, 0), (0, 32), (32, 32)])
def test_counts_that_are_taken(model: int, data: int) -> None:
    needed = CacheFilesNeeded(model=model, data=data)
    assert bool(needed) == (model + data > 0)
    message = description_to_wire(CachingDevice(model=model, data=data))
    assert description_from_wire(message).cache_files_needed == needed


@sweep(("model", "data"), [(33, 0), (0, 33), (-1, 0), (0, -1), (1 << 31, 0)])
def test_counts_that_are_refused(model: int, data: int) -> None:
    with pytest.raises(BadData, match=f"0 to {MAX_CACHE_FILES} are expected"):
        CacheFilesNeeded(model=model, data=data)


@sweep("field", ["model_cache_files", "data_cache_files"])
def test_a_daemon_that_needs_too_many_is_none(field: str) -> None:
    message = device_pb2.DescribeReply()
    message.CopyFrom(description_to_wire(CachingDevice()))
    setattr(message, field, 33)
    with pytest.raises(BadData, match="33 "):
        description_from_wire(message)


class Unsure(CachingDevice):
    """A device whose number of cache files cannot be read."""

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        raise BadData("no idea")

    @cache_files_needed.setter
    def cache_files_needed(self, value: CacheFilesNeeded) -> None:
        pass


def greedy() -> CachingDevice:
    """Returns a device that needs too many cache files."""
    return CachingDevice(model=33)


@sweep("factory", ["Unsure", "greedy"])
def test_a_driver_whose_device_makes_no_sense_gives_none(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import support.devices.caching

    monkeypatch.setattr(support.devices.caching, factory, globals()[factory], raising=False)
    with pytest.raises(Error):
        create_device(f"support.devices.caching:{factory}")
