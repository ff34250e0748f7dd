"""Checks that a device computes what it should, before it is used.

Some implementations of OpenCL build and run kernels without an error, and give wrong results. One
kernel computes what other kernels consist of: integers and floats, conversions, loops, and memory
that work-items share. Its results are compared with those of NumPy.

A file in the cache directory remembers a device that was right, so that each version of a device
and of its implementation is checked once.
"""

import hashlib
import logging
from pathlib import Path
from typing import Any, Final

import numpy as np

from neurald._version import __version__
from neurald.drivers.opencl.codegen.dialect import functions_for
from neurald.drivers.opencl.codegen.program_text import HEAD
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.cache.file import read_small, write_small
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.process.files.user_directories import cache_directory

_LOG = logging.getLogger(__name__)

_TEMPLATES = templates(__name__, "self_test.cl")
_NAME: Final = "neurald_self_test"
_ITEMS, _GROUPS, _COLUMNS = 64, 2, 16
_COUNT = _ITEMS * _GROUPS
#: What each number of a row shows, for messages.
_WHAT: Final = (
    "numbers of other work-items",
    "products of integers",
    "quotients of integers",
    "remainders of integers",
    "signs",
    "64-bit integers",
    "loops with branches",
    "8-bit integers",
    "products of floats",
    "conversions of floats to integers",
    "conversions to float16",
    "conversions from float16",
    "exp",
    "single bytes of memory",
    "local memory that is written again",
    "conversions of NaN to integers",
)
#: Numbers of a row that are floats, and their relative tolerance.
_FLOATS: Final = {8: 1e-5, 11: 0.0, 12: 1e-5}
#: Those that follow from such floats.
_TOLERANT: Final = {9: 1e-6}
_PASSED: Final = b"passed\n"

_Numbers = np.ndarray[Any, np.dtype[np.int32]]


def require_correct(device: DeviceContext) -> None:
    """Checks that a device computes what it should, unless it was checked before.

    Raises:
        OpFailed: it does not; the message says what is wrong.
        Error: the device failed.
    """
    path = _path(device)
    try:
        if read_small(path, len(_PASSED)) == _PASSED:
            return
    except (BadData, OSError):
        pass
    wrong = wrong_results(device)
    if wrong:
        raise OpFailed(
            f"OpenCL device {device.facts.name} ({device.facts.platform_name}, "
            f"{device.facts.driver_version}) is not used, because it computes wrong results: {wrong}; "
            "install another version of its driver"
        )
    try:
        write_small(path, _PASSED)
    except (BadData, OSError) as error:
        _LOG.info("%s will be checked again: %s", device.facts.name, error)


def wrong_results(device: DeviceContext) -> str:
    """Returns what a device computes wrong; "" if all is right.

    Raises:
        Error: the device failed.
    """
    import pyopencl as cl

    given = _given()
    found = np.zeros((_COUNT, _COLUMNS), np.int32)
    with device.state.guard("building the self-test"):
        program = cl.Program(device.context, program_text()).build(list(device.facts.build_options))
    queue = device.queue()
    with device.state.guard("running the self-test", after_launch=True):
        arena = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, given.nbytes + found.nbytes)
        cl.enqueue_copy(queue, arena, given)
        kernel = cl.Kernel(program, _NAME)
        kernel.set_args(arena, np.uint64(0), np.uint64(given.nbytes))
        cl.enqueue_nd_range_kernel(queue, kernel, (_COUNT,), (_ITEMS,))
        cl.enqueue_copy(queue, found, arena, src_offset=given.nbytes)
        queue.finish()
    wanted = expected(given)
    columns = zip(_WHAT, range(_COLUMNS), found.T, wanted.T, strict=True)
    return ", ".join(what for what, column, *numbers in columns if not _is_right(column, *numbers))


def program_text() -> str:
    """Returns the program of the check."""
    text = fill(_TEMPLATES["kernel"], NAME=_NAME, ITEMS=_ITEMS, COLUMNS=_COLUMNS)
    return f"{HEAD}{functions_for(text)}{text}"


def _given() -> _Numbers:
    """Returns two integers for each work-item; the second ones are not 0."""
    numbers = np.random.default_rng(0).integers(-(2**31) + 1, 2**31, (_COUNT, 2), np.int32)
    numbers[::3] >>= 20
    numbers[:4, 0] = (0, 1, -1, 2**31 - 1)
    numbers[:, 1] |= 1
    numbers[numbers[:, 1] == -1, 1] = 7
    return numbers


def expected(given: _Numbers) -> _Numbers:
    """Returns the right results for these integers."""
    x, y = given[:, 0].astype(np.int64), given[:, 1].astype(np.int64)
    a = ((given[:, 0] & 0x7FFFFF) | 0x3F800000).view(np.float32) - np.float32(1.5)
    b = np.fmod(y, 16).astype(np.float32)
    rows = np.zeros((len(given), _COLUMNS), np.int64)
    groups = given.reshape(_GROUPS, _ITEMS, 2)
    rows[:, 0] = groups[:, ::-1, 0].reshape(-1)
    rows[:, 1] = x * y
    rows[:, 2], rows[:, 3] = x // y, x % y
    rows[:, 4] = np.sign(x) + 4 * np.sign(x * y)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    rows[:, 5] = [_fixed_point(n, 0x5F000000 + (m & 0xFFFF), n & 7) for n, m in pairs]
    rows[:, 6] = [sum(i * m for i in range(n & 31) if m >> i & 1) for n, m in pairs]
    rows[:, 7] = np.clip(x >> (y & 31), -128, 127)
    rows[:, 8] = (a.astype(np.float64) * b + 0.25).astype(np.float32).view(np.int32)
    rows[:, 9] = np.clip(np.trunc(a * b * np.float32(1e9)).astype(np.float64), -(2**31), 2**31 - 1)
    rows[:, 10] = a.astype(np.float16).view(np.uint16)
    rows[:, 11] = (0x3800 + (x & 0x7FF)).astype(np.uint16).view(np.float16).astype(np.float32).view(np.int32)
    rows[:, 12] = np.exp(a).view(np.int32)
    rows[:, 13] = given.reshape(-1).view(np.int8)[1 : len(given) + 1]
    moved = np.empty_like(groups[:, :, 1])
    moved[:, (np.arange(_ITEMS) * 5 + 3) % _ITEMS] = groups[:, :, 1]
    rows[:, 14] = moved.reshape(-1)
    rows[:, 15] = np.where(x < 0, 0, 2)
    # The lowest 32 bits.
    return (rows & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _fixed_point(value: int, mantissa: int, right: int) -> int:
    """Returns a product with a fixed-point multiplier, see functions.cl."""
    product = value * mantissa + (1 << 30)
    if right:
        product += (1 << (30 + right)) - (1 << 31 if product - (1 << 30) < 0 else 0)
    return product >> (31 + right)


def _is_right(column: int, found: _Numbers, wanted: _Numbers) -> bool:
    if column in _FLOATS:
        tolerance = _FLOATS[column]
        numbers = np.ascontiguousarray(found).view(np.float32), np.ascontiguousarray(wanted).view(np.float32)
        return np.allclose(*numbers, rtol=tolerance, atol=tolerance)
    if column in _TOLERANT:
        return np.allclose(found.astype(np.float64), wanted, rtol=_TOLERANT[column], atol=1)
    return np.array_equal(found, wanted)


def _path(device: DeviceContext) -> Path:
    parts = (__version__, device.facts.digest, " ".join(device.facts.build_options), program_text())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return cache_directory() / "opencl_self_test" / key
