"""The native loop, with fakes of OpenCL's functions."""

import ctypes
from typing import Any

import numpy as np
from support.sweeps import sweep

from neurald.drivers.opencl.runtime import native_loop
from neurald.drivers.opencl.runtime.native_loop import EncodedArgument, EncodedCommand
from neurald.drivers.opencl.runtime.native_loop_module import WRITTEN_ALIGNMENT
from neurald.hal.memory.private_memory import aligned_zeros


class FakeOpenCL:
    """Records the calls of OpenCL's functions; those named in `failures` fail."""

    def __init__(self, **failures: int) -> None:
        self.calls: list[str] = []
        sizes = ctypes.POINTER(ctypes.c_size_t)
        parameters: dict[str, list[Any]] = {
            "clEnqueueNDRangeKernel": [ctypes.c_uint32, sizes, sizes, sizes],
            "clEnqueueWriteBuffer": [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p],
            "clEnqueueReadBuffer": [ctypes.c_uint32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p],
        }
        argument: list[Any] = [
            ctypes.c_void_p,
            ctypes.c_uint32,
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_uint64),
        ]
        handles, events = [ctypes.c_void_p] * 2, [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]

        def set_argument(kernel: int, position: int, size_bytes: int, value: Any) -> int:
            self.calls.append(f"SetKernelArg {kernel} {position} {size_bytes} {value[0]}")
            return failures.get("clSetKernelArg", 0) if position == 2 else 0

        def fake(name: str) -> Any:
            if name == "clSetKernelArg":
                return ctypes.CFUNCTYPE(ctypes.c_int32, *argument)(set_argument)

            def called(_queue: int, *arguments: Any) -> int:
                handle = f" {arguments[0]}" if arguments else ""
                self.calls.append(name.removeprefix("cl").removeprefix("Enqueue") + handle)
                return failures.get(name, 0)

            middle = parameters.get(name)
            types = [*handles, *middle, *events] if middle else handles[:1]
            return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(called)

        self._functions = {name: fake(name) for name in native_loop._FUNCTIONS}
        addresses = {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self._functions.items()
        }
        functions = native_loop._compile(addresses)
        self.run, _, _, self.write, self.read, self.set_arguments, self._engine = functions

    def of(self, kinds: str, *, flush_every: int = 0, finish: bool = True) -> tuple[int, int]:
        """Runs a kernel for each k, a write for each w, and a read for each r, of which those in
        capitals are empty; returns the position and the code.
        """
        cell = ctypes.c_void_p(1)
        commands = (EncodedCommand * len(kinds))(
            *(
                EncodedCommand(
                    "kwr".index(kind.lower()),
                    100 + position,
                    8,
                    4 if kind.islower() else 0,
                    ctypes.addressof(cell),
                )
                for position, kind in enumerate(kinds)
            )
        )
        code = ctypes.c_int32(1)
        position = self.run(77, len(kinds), commands, flush_every, finish, ctypes.byref(code))
        return position, code.value


def test_commands_become_calls() -> None:
    fake = FakeOpenCL()
    assert fake.of("wkkr") == (4, 0)
    assert fake.calls == [
        "WriteBuffer 100",
        "NDRangeKernel 101",
        "NDRangeKernel 102",
        "ReadBuffer 103",
        "Finish",
    ]


def test_empty_commands_do_nothing() -> None:
    fake = FakeOpenCL()
    assert fake.of("WkKrR") == (5, 0)
    assert fake.calls == ["NDRangeKernel 101", "ReadBuffer 103", "Finish"]


@sweep(("code", "count"), [(0, 3), (-51, 2)])
def test_arguments_are_set_up_to_a_failure(code: int, count: int) -> None:
    fake = FakeOpenCL(clSetKernelArg=code)
    places = (EncodedArgument * 3)(
        *[EncodedArgument(*each) for each in ((100, 0, 8), (100, 2, 4), (101, 1, 8))]
    )
    values, found = (ctypes.c_uint64 * 3)(1 << 40, 6, 7), ctypes.c_int32(1)
    position = fake.set_arguments(3, places, values, ctypes.byref(found))
    assert (position, found.value) == (3 if not code else 1, code)
    expected = [f"SetKernelArg 100 0 8 {1 << 40}", "SetKernelArg 100 2 4 6", "SetKernelArg 101 1 8 7"]
    assert fake.calls == expected[:count]


def test_flushes_of_the_queue() -> None:
    fake = FakeOpenCL()
    assert fake.of("kkkkk", flush_every=2, finish=False) == (5, 0)
    assert [call.split()[0] for call in fake.calls] == [
        *["NDRangeKernel", "NDRangeKernel", "Flush"] * 2,
        "NDRangeKernel",
        "Flush",
    ]


def test_the_loop_ends_at_a_failure() -> None:
    fake = FakeOpenCL(clEnqueueNDRangeKernel=-5)
    assert fake.of("wwkr") == (2, -5)
    assert fake.calls == ["WriteBuffer 100", "WriteBuffer 101", "NDRangeKernel 102"]
    assert FakeOpenCL(clFinish=-36).of("k") == (1, -36)
    assert FakeOpenCL(clFlush=-36).of("k", finish=False) == (1, -36)
    assert FakeOpenCL(clFinish=-36).of("") == (0, -36)


@sweep("size", [0, 1, 63, 64, 65, 1000])
def test_exactly_the_given_bytes_are_copied(size: int) -> None:
    source = np.arange(size + 8, dtype=np.uint8)
    for copy in (native_loop.native_copy(), native_loop.native_write()):
        for start in (3, WRITTEN_ALIGNMENT):
            target = aligned_zeros(size + 2 * WRITTEN_ALIGNMENT)
            target[:] = 255
            copy(target.ctypes.data + start, source.ctypes.data + 5, size)
            np.testing.assert_array_equal(target[start : start + size], source[5 : 5 + size])
            assert (target[:start] == 255).all()
            assert (target[start + size :] == 255).all()


def test_pieces_are_copied_and_transferred() -> None:
    """Others have taken the first two of five pieces, of which the last is shorter."""
    fake = FakeOpenCL()
    content = np.arange(90, dtype=np.uint8)
    pinned, host = np.zeros_like(content), content.copy()
    taken = ctypes.c_int64(40)
    place = 77, 5, 1000, pinned.ctypes.data, host.ctypes.data, 90, 20
    assert fake.write(*place, ctypes.addressof(taken)) == 0
    np.testing.assert_array_equal(pinned, np.where(np.arange(90) >= 40, content, 0))
    assert fake.calls == ["WriteBuffer 5", "Flush"] * 3
    assert taken.value >= 90
    fake.calls.clear()
    host[:] = 0
    taken.value = 0
    assert fake.read(*place, ctypes.addressof(taken)) == 0
    np.testing.assert_array_equal(host, pinned)
    host[:] = 0
    assert fake.read(*place, ctypes.addressof(taken)) == 0
    assert not host.any()
    assert not fake.calls


def test_pieces_end_with_a_failure() -> None:
    fake = FakeOpenCL(clEnqueueWriteBuffer=-5)
    content, target, taken = np.ones(90, np.uint8), np.zeros(90, np.uint8), ctypes.c_int64(0)
    place = 77, 5, 0, target.ctypes.data, content.ctypes.data, 90, 20
    assert fake.write(*place, ctypes.addressof(taken)) == -5
    assert fake.calls == ["WriteBuffer 5"]
    assert target.sum() == 20
