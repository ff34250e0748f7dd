"""The kernels of the first tier are in the package, or compiled once and kept."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.daemon.forking import in_child
from support.models.small import add_model

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.first_tier import built_library
from neurald.drivers.cpu.first_tier import library as subject
from neurald.drivers.cpu.first_tier.library import FirstTierLibrary, read_library, write_library
from neurald.drivers.cpu.native.objects.image import decoded
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.compiling.separate_compiler import end_processes
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.sync.cancellation import Cancellation

TARGET = TARGETS["generic"]

_PROGRAM = """
import sys
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.first_tier import library as subject
from neurald.hal.compiling import separate_compiler

separate_compiler.NICENESS = 0
subject.built_library = lambda target: None
library = CpuDevice().first_tier.library
assert library.code(None) is None
assert library.wait(120)
print(library.code(None) is not None)
used = ("llvmlite.binding", "neurald.drivers.cpu.emit.vector", "neurald.drivers.cpu.first_tier.kernels.units")
print({name for name in used if name in sys.modules})
"""


class Kept:
    """Implements `neurald.hal.device.Variants` in memory."""

    def __init__(self) -> None:
        self.artifacts: dict[bytes, Artifact] = {}

    def load(self, name: bytes) -> Artifact | None:
        return self.artifacts.get(name)

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        assert compile_ms > 0
        self.artifacts[name] = artifact


@pytest.fixture
def none_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the libraries of the package."""
    monkeypatch.setattr(subject, "built_library", lambda target: None)


@pytest.mark.skipif(MACHINE != built_library.MACHINE, reason="the package has no library for this machine")
def test_the_library_of_the_package_is_used_at_once() -> None:
    device, kept = CpuDevice(), Kept()
    assert isinstance(device.first_tier.library.code(kept), LoadedCode)
    assert device.first_tier.library.wait(0)
    assert not kept.artifacts
    assert isinstance(device.prepare_first_tier(add_model(), PrepareOptions()), CpuPreparedModel)


def test_what_of_the_package_cannot_be_loaded_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "built_library", lambda target: b"no image")
    library = FirstTierLibrary(TARGET)
    assert library.code(None) is None
    assert library.wait(120)
    assert library.code(None) is not None


@pytest.mark.usefixtures("none_built")
def test_the_library_is_compiled_in_the_background_and_kept() -> None:
    kept = Kept()
    library = FirstTierLibrary(TARGET)
    assert library.code(kept) is None
    assert library.wait(120)
    code = library.code(kept)
    assert isinstance(code, LoadedCode)
    again = FirstTierLibrary(TARGET)
    found = again.code(kept)
    assert isinstance(found, LoadedCode)
    assert found.addresses.keys() == code.addresses.keys()
    assert again.wait(0)


@pytest.mark.usefixtures("none_built")
def test_an_application_compiles_it_in_another_process() -> None:
    device, kept = CpuDevice(), Kept()
    assert device.first_tier.library.code(kept) is None
    assert device.first_tier.library.wait(120)
    end_processes()
    code = device.first_tier.library.code(kept)
    assert isinstance(code, LoadedCode)
    (image,) = read_library(kept.artifacts[b"first tier"], device._target).codes
    assert code.addresses.keys() == decoded(image).functions.keys()


@pytest.mark.usefixtures("none_built")
def test_without_another_process_it_is_compiled_in_this_one() -> None:
    calls: list[Cancellation] = []

    def fail(cancellation: Cancellation) -> Artifact:
        calls.append(cancellation)
        raise OpFailed("no process can start")

    library = FirstTierLibrary(TARGET, fail)
    assert library.code(None) is None
    assert library.wait(120)
    assert library.code(None) is not None
    assert len(calls) == 1


def test_the_process_of_an_application_imports_no_compiler_for_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "set()"]


@pytest.mark.usefixtures("none_built")
def test_models_use_the_library_as_soon_as_it_is_there() -> None:
    device, options = CpuDevice(), PrepareOptions(variants=Kept())
    assert isinstance(device.prepare_first_tier(add_model(), options), ReferenceModel)
    assert device.first_tier.library.wait(120)
    assert isinstance(device.prepare_first_tier(add_model(), options), CpuPreparedModel)
    assert CpuDevice(compiles=False).prepare_first_tier(add_model(), options) is None


@pytest.mark.forks
@pytest.mark.usefixtures("none_built")
def test_a_forked_child_compiles_it_again() -> None:
    library = FirstTierLibrary(TARGET)
    library._compiling = -1

    def check() -> None:
        assert library.code(None) is None
        assert library.wait(60)
        assert library.code(None) is not None

    in_child(check, 80)


@pytest.mark.usefixtures("none_built")
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:],
        lambda content: b"x" + content[1:],
    ],
)
def test_damaged_files_are_refused(damage: Any) -> None:
    content = bytes(write_library(TARGET, (b"code" * 20,), b"program").model[0].view())
    artifact = Artifact(model=(HostMemory(damage(content)),), data=(HostMemory(b"-"),))
    with pytest.raises(BadData, match="damaged or not from the library of the CPU driver"):
        read_library(artifact, TARGET)
    kept = Kept()
    kept.artifacts[b"first tier"] = artifact
    library = FirstTierLibrary(TARGET)
    assert library.code(kept) is None
    assert library.wait(120)
    assert kept.artifacts[b"first tier"] is not artifact


def test_a_library_for_another_target_is_refused() -> None:
    artifact = write_library(TARGET, (b"code",), b"program")
    assert read_library(artifact, TARGET).codes == (b"code",)
    with pytest.raises(BadData, match="is for generic; avx2 is expected"):
        read_library(artifact, TARGETS["avx2"])
    with pytest.raises(BadData, match="got 0 and 0"):
        read_library(Artifact(), TARGET)
