"""The libraries of the package: they are those of the sources, and nothing else is used."""

import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from neurald.drivers.cpu.first_tier import built_library as subject
from neurald.drivers.cpu.first_tier.built_library import (
    INDEX,
    MACHINE,
    Index,
    built_library,
    file_of,
    text_digest,
)
from neurald.drivers.cpu.first_tier.kernels.units import library_units
from neurald.drivers.cpu.native.objects.image import decoded
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.cache.sources import sources_digest

FOLDER = Path(subject.__file__).parent
#: The targets that have a library.
BUILT = [name for name, target in TARGETS.items() if target.machine == "x86_64"]
RUN = "run scripts/first_tier_library.py"


def index() -> Index:
    return msgspec.json.decode((FOLDER / INDEX).read_bytes(), type=Index)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Returns the files that the package has from now on, by name."""
    found = {name: (FOLDER / name).read_bytes() for name in (INDEX, *map(file_of, subject.TARGETS))}

    def read(name: str) -> bytes:
        if name not in found:
            raise FileNotFoundError(name)
        return found[name]

    monkeypatch.setattr(subject, "_content", read)
    return found


def test_the_files_are_compiled_from_the_texts() -> None:
    for name in subject.TARGETS:
        assert index().files[name].text == text_digest(library_units(TARGETS[name])), RUN


def test_the_sources_are_those_of_the_index() -> None:
    assert sources_digest(*index().sources) == index().digest, RUN
    assert "drivers/cpu/first_tier/kernels/convolution/products.py" in index().sources
    assert "drivers/cpu/emit/vector.py" in index().sources


@pytest.mark.skipif(
    TARGETS["generic"].machine != MACHINE, reason="the package has no library for this machine"
)
@pytest.mark.parametrize("name", BUILT)
def test_every_target_has_a_library(name: str) -> None:
    image = built_library(TARGETS[name])
    assert image is not None, "list the target in built_library.py, and run scripts/first_tier_library.py"
    names = {unit.name for unit in library_units(TARGETS[name])}
    assert decoded(image).functions.keys() >= names


def test_targets_with_one_library_have_the_same_texts() -> None:
    same: Mapping[str, str] = subject._SAME
    for name, other in same.items():
        assert text_digest(library_units(TARGETS[name])) == text_digest(library_units(TARGETS[other]))
        # Its code may use no instructions that the other one lacks.
        assert TARGETS[name].needs >= TARGETS[other].needs


def test_other_architectures_have_none() -> None:
    assert built_library(TARGETS["aarch64"]) is None


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def test_a_damaged_file_is_not_used(files: dict[str, bytes]) -> None:
    name, target = file_of("avx2"), TARGETS["avx2"]
    whole = files[name]
    assert built_library(target) is not None
    image = zlib.decompress(whole)
    for damaged in (
        b"",
        whole[:-9],
        _flipped(whole, 1000),
        zlib.compress(_flipped(image, len(image) // 2)),
        zlib.compress(image + b"x"),
        zlib.compress(bytes(subject._MAX_BYTES + 1)),
    ):
        files[name] = damaged
        assert built_library(target) is None
    del files[name]
    assert built_library(target) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\xff", b'{"llvm": 1}'])
def test_a_damaged_index_is_not_used(files: dict[str, bytes], content: bytes) -> None:
    files[INDEX] = content
    assert built_library(TARGETS["avx2"]) is None


def test_a_library_of_other_sources_is_not_used(files: dict[str, bytes]) -> None:
    before = index()
    for changed in (
        msgspec.structs.replace(before, digest="0" * len(before.digest)),
        msgspec.structs.replace(before, sources=before.sources[1:]),
        msgspec.structs.replace(before, sources=(*before.sources, "drivers/cpu/missing.py")),
        msgspec.structs.replace(before, sources=(*before.sources, "missing/missing.py")),
        msgspec.structs.replace(before, files={}),
    ):
        files[INDEX] = msgspec.json.encode(changed)
        assert built_library(TARGETS["avx2"]) is None
    files[INDEX] = msgspec.json.encode(before)
    assert built_library(TARGETS["avx2"]) is not None
