"""Linking of objects to images, and loading of images; unsupported objects are refused."""

import ctypes
import gc
import mmap
import os
import random
from pathlib import Path

import msgspec
import pytest
from support.cpu.routines import TARGET
from support.sweeps import sweep

from neurald.drivers.cpu.native.objects import elf_linker
from neurald.drivers.cpu.native.objects.elf_architecture import NotLinkable
from neurald.drivers.cpu.native.objects.elf_linker import link
from neurald.drivers.cpu.native.objects.image import Image, LoadedImage, decoded, is_image
from neurald.drivers.cpu.native.objects.llvm import CompilationFailed, LoadedCode, TargetMachine, link_image
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.hal.errors import BadData

pytestmark = pytest.mark.skipif(not elf_linker.is_linkable_here(), reason="images do not run on this machine")


def objects(*texts: str) -> list[bytes]:
    return [TargetMachine.of(TARGET).object_code(text) for text in texts]


def called(image: Image, name: str, *arguments: int) -> int:
    loaded = LoadedImage(decoded(image.encoded()), (name,))
    types = [ctypes.c_int64] * len(arguments)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *types)(loaded.addresses[name])(*arguments))


TWICE = "define i64 @twice(i64 %x) { %y = mul i64 %x, 2\n ret i64 %y }\n"
CALLING = """
declare i64 @twice(i64)
define i64 @four_times(i64 %x) {
  %y = call i64 @twice(i64 %x)
  %z = call i64 @twice(i64 %y)
  ret i64 %z
}
"""
LENGTH = """
@text = private constant [6 x i8] c"hello\\00"
declare i64 @strlen(ptr)
define i64 @length() {
  %n = call i64 @strlen(ptr @text)
  ret i64 %n
}
"""
TABLE = """
declare i64 @twice(i64)
define i64 @thrice(i64 %x) { %y = mul i64 %x, 3
 ret i64 %y }
@table = constant [2 x ptr] [ptr @twice, ptr @thrice]
define i64 @by_table(i64 %n, i64 %x) {
  %place = getelementptr ptr, ptr @table, i64 %n
  %function = load ptr, ptr %place
  %y = call i64 %function(i64 %x)
  ret i64 %y
}
"""
FROM_OUTSIDE = """
@environ = external global ptr
declare i64 @labs(i64)
define i64 @has_environment() {
  %found = load ptr, ptr @environ
  %is = icmp ne ptr %found, null
  %n = zext i1 %is to i64
  ret i64 %n
}
define i64 @address() { ret i64 ptrtoint (ptr @labs to i64) }
"""
COUNTING = """
@count = internal global i64 40
define i64 @counted() {
  %n = load i64, ptr @count
  %m = add i64 %n, 1
  store i64 %m, ptr @count
  ret i64 %m
}
"""


@sweep("seed", range(4))
def test_functions_call_each_other_in_any_order(seed: int) -> None:
    codes = objects(TWICE, CALLING, LENGTH, TABLE)
    random.Random(seed).shuffle(codes)
    image = link(codes)
    assert called(image, "four_times", 10) == 40
    assert called(image, "length") == 5
    assert [called(image, "by_table", n, 7) for n in (0, 1)] == [14, 21]


def test_functions_and_variables_of_the_process() -> None:
    image = link(objects(FROM_OUTSIDE))
    assert {name for name, _ in image.imports} == {"environ", "labs"}
    assert called(image, "has_environment") == 1
    labs = called(image, "address")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(labs)(-5) == 5


def test_two_images_of_the_same_objects_are_equal() -> None:
    codes = objects(TWICE, CALLING)
    assert link(codes) == link(codes)
    assert link_image(link_image(codes)) == link_image(codes)


def test_constants_cannot_be_executed_or_written() -> None:
    image = link(objects(LENGTH))
    loaded = LoadedImage(image, ("length",))
    start = loaded.addresses["length"] - image.functions["length"]
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, right = line.split()[:2]
        low, high = (int(each, 16) for each in place.split("-"))
        for part in (0, image.code_bytes):
            if low <= start + part < high:
                rights[part] = right
    assert rights == {0: "r-xp", image.code_bytes: "r--p"}


def test_memory_is_unmapped() -> None:
    def is_loaded(address: int) -> bool:
        # Other threads may have mapped something else there meanwhile.
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            try:
                return os.pread(memory.fileno(), len(code), address) == code
            except OSError:
                return False

    image = link(objects(TWICE))
    code = image.content[image.functions["twice"] : image.code_bytes]
    loaded = LoadedCode(objects(TWICE), ("twice",))
    address = loaded.addresses["twice"]
    assert is_loaded(address)
    del loaded
    gc.collect()
    assert not is_loaded(address)
    kept = LoadedCode(objects(TWICE), ("twice",))
    kept.keep_forever()
    address = kept.addresses["twice"]
    del kept
    gc.collect()
    assert is_loaded(address)


def test_variables_are_left_to_llvm() -> None:
    codes = objects(COUNTING)
    with pytest.raises(NotLinkable, match=r"section \.data"):
        link(codes)
    assert link_image(codes) == tuple(codes)
    if MACHINE == "aarch64":
        with pytest.raises(CompilationFailed, match="not safe on aarch64"):
            LoadedCode(codes, ("counted",))
        return
    loaded = LoadedCode(codes, ("counted",))
    counted = ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.addresses["counted"])
    assert [counted(), counted()] == [41, 42]


def test_missing_functions() -> None:
    image = link(
        objects(
            "declare void @neurald_nothing()\ndefine void @f() { call void @neurald_nothing()\n ret void }"
        )
    )
    with pytest.raises(BadData, match="neurald_nothing"):
        LoadedImage(image, ("f",))
    with pytest.raises(CompilationFailed, match="no function other"):
        LoadedCode(objects(TWICE), ("other",))


def test_duplicate_functions() -> None:
    with pytest.raises(NotLinkable, match="twice is defined twice"):
        link(objects(TWICE, TWICE))


def test_damaged_objects_are_refused_or_linked() -> None:
    """No content of an object leads to accesses outside it."""
    rng = random.Random(5)
    for code in objects(TABLE, LENGTH):
        for _ in range(300):
            damaged = bytearray(code)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            try:
                decoded(link([bytes(damaged)]).encoded())
            except (NotLinkable, BadData):
                continue
        for length in range(0, len(code), 7):
            with pytest.raises(NotLinkable):
                link([code[:length]])


def image_with(**changes: object) -> bytes:
    image = link(objects(FROM_OUTSIDE))
    return msgspec.structs.replace(image, **changes).encoded()


@sweep(
    "changes",
    [
        {"code_bytes": 1},
        {"code_bytes": -mmap.PAGESIZE},
        {"code_bytes": 1 << 40},
        {"functions": {"f": -1}},
        {"functions": {"f": mmap.PAGESIZE}},
        {"imports": (("labs", -8),)},
        {"imports": (("labs", 1 << 20),)},
        {"addresses": (-1,)},
        {"addresses": (1 << 40,)},
        {"content": b""},
    ],
)
def test_inconsistent_images(changes: dict[str, object]) -> None:
    with pytest.raises(BadData):
        decoded(image_with(**changes))


def test_other_bytes_are_refused() -> None:
    whole = image_with()
    assert is_image(whole)
    for other in (b"", b"\x7fELF", whole[:-1], whole[:8]):
        with pytest.raises(BadData):
            decoded(other)
