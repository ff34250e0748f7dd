"""Features of the processor, by which targets are chosen."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.drivers.cpu.target import processor


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Has what was found forgotten, before and after a test."""
    found = processor.features, processor.may_use_tiles
    for each in found:
        each.cache_clear()
    yield
    for each in found:
        each.cache_clear()


class Function:
    def __init__(self, results: dict[int, int]) -> None:
        self.results = results

    def __call__(self, entry: int, *_: int) -> int:
        return self.results[entry]


def test_features_of_arm_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        getauxval = Function({16: 1 << 1 | 1 << 20 | 1 << 63, 26: 1 << 13})

    monkeypatch.setattr(processor, "MACHINE", "aarch64")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    assert processor.features() == {"asimd", "asimddp", "i8mm"}


def test_an_arm_system_without_an_auxiliary_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "MACHINE", "aarch64")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert processor.features() == frozenset()


@pytest.mark.parametrize("status", [0, -1])
def test_permission_to_use_tiles(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    class Library:
        syscall = Function({158: status})

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    assert processor.may_use_tiles() is (status == 0)


def test_the_size_of_the_cache_of_instructions(tmp_path: Path) -> None:
    assert processor.code_cache_bytes(str(tmp_path)) == 0
    for index, (kind, size) in enumerate([("Data", "48K"), ("Instruction", "64K"), ("Unified", "2048K")]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "type").write_text(f"{kind}\n")
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert processor.code_cache_bytes(f"{tmp_path}/") == 64 << 10
    (tmp_path / "index1" / "size").write_text("much\n")
    assert processor.code_cache_bytes(f"{tmp_path}//") == 0
