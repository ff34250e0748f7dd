"""The native loop, with fakes of OpenCL's functions."""

import ctypes
from typing import Any

import numpy as np
from support.sweeps import sweep

from neurald.drivers.opencl.runtime import native_loop
from neurald.drivers.opencl.runtime.native_loop import EncodedCommand


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
        handles, events = [ctypes.c_void_p] * 2, [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]

        def fake(name: str) -> Any:
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
        self.run, self.copy, self.write, self.read, self._engine = native_loop._compile(addresses)

    def of(self, kinds: str, *, flush_every: int = 0, finish: bool = True) -> tuple[int, int]:
        """Runs a kernel for each k, a write for each w, and a read for each r; returns the position
        and the code.
        """
        cell = ctypes.c_void_p(1)
        commands = (EncodedCommand * len(kinds))(
            *(
                EncodedCommand("kwr".index(kind), 100 + position, 8, 4, ctypes.addressof(cell))
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
    target = np.full(size + 8, 255, np.uint8)
    native_loop.native_copy()(target.ctypes.data + 3, source.ctypes.data + 5, size)
    np.testing.assert_array_equal(target[3 : 3 + size], source[5 : 5 + size])
    assert (target[:3] == 255).all()
    assert (target[3 + size :] == 255).all()


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
