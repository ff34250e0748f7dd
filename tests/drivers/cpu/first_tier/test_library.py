"""The kernels of the first tier are compiled once, and kept."""

from typing import Any

import pytest
from support.daemon.forking import in_child
from support.models.small import add_model

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.first_tier.library import FirstTierLibrary, read_library, write_library
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory

TARGET = TARGETS["generic"]


class Kept:
    """Implements `neurald.hal.device.Variants` in memory."""

    def __init__(self) -> None:
        self.artifacts: dict[bytes, Artifact] = {}

    def load(self, name: bytes) -> Artifact | None:
        return self.artifacts.get(name)

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        assert compile_ms > 0
        self.artifacts[name] = artifact


def test_the_library_is_compiled_in_the_background_and_kept() -> None:
    kept = Kept()
    library = FirstTierLibrary(TARGET)
    assert library.codes(kept) is None
    assert library.wait(120)
    codes = library.codes(kept)
    assert codes is not None
    again = FirstTierLibrary(TARGET)
    assert again.codes(kept) == codes
    assert again.wait(0)


def test_models_use_the_library_as_soon_as_it_is_there() -> None:
    device, options = CpuDevice(), PrepareOptions(variants=Kept())
    assert isinstance(device.prepare_first_tier(add_model(), options), ReferenceModel)
    assert device.first_tier_library.wait(120)
    assert isinstance(device.prepare_first_tier(add_model(), options), CpuPreparedModel)
    assert CpuDevice(compiles=False).prepare_first_tier(add_model(), options) is None


def test_a_forked_child_compiles_it_again() -> None:
    library = FirstTierLibrary(TARGET)
    library._compiling = -1

    def check() -> None:
        assert library.codes(None) is None
        assert library.wait(60)
        assert library.codes(None) is not None

    in_child(check, 80)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: b"", "no library"),
        (lambda content: content[:-1], "damaged"),
        (lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:], "damaged"),
        (lambda content: b"x" + content[1:], "no library"),
    ],
)
def test_damaged_files_are_refused(damage: Any, message: str) -> None:
    content = bytes(write_library(TARGET, (b"code" * 20,), b"program").model[0].view())
    artifact = Artifact(model=(HostMemory(damage(content)),), data=(HostMemory(b"-"),))
    with pytest.raises(BadData, match=message):
        read_library(artifact, TARGET)
    kept = Kept()
    kept.artifacts[b"first tier"] = artifact
    library = FirstTierLibrary(TARGET)
    assert library.codes(kept) is None
    assert library.wait(120)
    assert kept.artifacts[b"first tier"] is not artifact


def test_a_library_for_another_target_is_refused() -> None:
    artifact = write_library(TARGET, (b"code",), b"program")
    assert read_library(artifact, TARGET).codes == (b"code",)
    with pytest.raises(BadData, match="is for generic; avx2 is expected"):
        read_library(artifact, TARGETS["avx2"])
    with pytest.raises(BadData, match="no library"):
        read_library(Artifact(), TARGET)
