"""Repeats a step whose lengths change while it runs, as a function of native code.

A short step runs in memory of its own, which fits lengths like those of the last execution. It
writes outputs where the caller wants them if there is room for all lengths that fit. Native code
copies the others, as large as last time. If they have another size now, they are copied once more.

Steps that may take long run in memory that their other executions use as well.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.native.instances.instance import Instance
from neurald.drivers.cpu.native.python_calls.python_call import Array, StepCall, StepPort, StepPorts
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.lazy_numpy import np
from neurald.hal.records import replace

#: Shapes and sizes in bytes of the outputs.
_Sizes: TypeAlias = list[tuple[tuple[int, ...], int]]

#: Maximum number of sets of lengths of which the shapes of outputs are kept.
_MAX_KNOWN: Final = 64


class GrowingCall:
    """Runs a step on inputs of the same shapes.

    Args:
        opened: the step.
        instance: memory for the step, which nothing else uses unless `prepare_inputs` is called
            before the next run.
        capacities: the lengths that fit.
        lengths: those of the inputs, see `OpenExecutable.input_lengths`.
        last: lengths after an execution, which the next one probably finds as well.
        placed: the arguments of the step that are each output, numbered like those of
            `Instance.bind_argument`; none of outputs that must be copied.

    Attributes:
        capacities: the lengths that fit.
        lengths: the lengths of the inputs; None while they are being set.
        expected_bytes: the size of the outputs that the next run creates.
        copied_outputs: the positions of the outputs that are copied.
    """

    def __init__(
        self,
        opened: OpenExecutable,
        instance: Instance,
        capacities: Sequence[int],
        lengths: Sequence[int],
        last: Sequence[int],
        placed: Sequence[Sequence[int]] = (),
    ) -> None:
        self._opened = opened
        self._placed = placed
        self.copied_outputs: Sequence[int] = range(len(opened.outputs))
        self._instance = instance
        self.capacities = tuple(capacities)
        count = len(opened.program.bounds)
        extents = instance.extents
        extents[2 * count : 3 * count] = capacities
        self._lengths = memoryview(extents.data).cast("B")[: count * extents.itemsize]
        self.lengths: Sequence[int] | None = lengths
        self._begin = np.array(lengths, np.int64).tobytes()
        self._known: dict[bytes, _Sizes] = {}
        self._expected = np.array(last, np.int64).tobytes()
        self._input_shapes = opened.input_shapes(lengths)
        self.expected_bytes = sum([size_bytes for _, size_bytes in self._sizes(self._expected)])
        self._ports = StepPorts()
        self._run: Callable[..., object] = lambda: False

    def bind(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Sets the memory for `run`, which does not overlap and has room for the outputs."""
        for arguments, address in zip(self._placed, outputs, strict=False):
            for argument in arguments:
                self._instance.bind_argument(argument, address)
        written = {number for number, arguments in enumerate(self._placed) if arguments}
        self.copied_outputs = [number for number in range(len(outputs)) if number not in written]
        self._ports = self._new_ports()
        places = [(address, 0) for address in (*inputs, *outputs)]
        self._outputs = outputs
        binding = np.array(places, np.int64).reshape(-1)
        self._run = self._call(binding).bound()

    def bind_arrays(self, *, releases_gil: bool = False) -> None:
        """Lets `run_arrays` be called."""
        self._ports = self._new_ports()
        inputs, outputs = self._ports.inputs, self._ports.outputs
        self._lock = threading.Lock()
        call = self._call(self._ports.unbound().reshape(-1), releases_gil=releases_gil)
        self._run = call.on_arrays(inputs, outputs)

    def bind_arrays_in_shared_memory(self) -> None:
        """Lets `run_arrays` be called after `prepare_inputs`, which releases the GIL.

        The step runs in all threads, and other calls may use its memory in turn.
        """
        self._ports = self._new_ports()
        self._lock = threading.Lock()
        self._step_call = self._instance.step_call(self._ports, self._ports.unbound().reshape(-1))
        self._run = self._step_call.on_arrays(self._ports.inputs, self._ports.outputs)

    def prepare_inputs(self, lengths: Sequence[int]) -> None:
        """Sets the lengths of the inputs, after the memory was used by others, too.

        Args:
            lengths: see the constructor; none exceeds the capacities.
        """
        self.lengths = None
        instance, executable = self._instance, self._instance.executable
        alignment = instance.alignment
        shapes = self._opened.input_shapes(lengths)
        for number, (port, arguments, shape) in enumerate(
            zip(executable.inputs, executable.input_arguments, shapes, strict=True)
        ):
            size_bytes = port.operand.type.dtype.itemsize * prod(shape)
            is_used = port.offset is not None and size_bytes and arguments
            own = instance.arena + (port.offset or 0) if is_used else 0
            self._ports.resize(number, shape, size_bytes)
            self._ports.place(number, own, alignment)
            if own:
                for argument in arguments:
                    instance.bind_argument(argument, own)
        instance.run_whole()
        self._begin = np.array(lengths, np.int64).tobytes()
        self.lengths = lengths

    def take_result(self) -> int:
        """Returns the result of the last run in shared memory, see `StepCall.take_result`."""
        return self._step_call.take_result()

    def _call(self, binding: Array, *, releases_gil: bool = False) -> StepCall:
        return self._instance.short_step_call(self._ports, binding, None, releases_gil=releases_gil)

    def _new_ports(self) -> StepPorts:
        """Returns the ports of inputs of these shapes, and of outputs with the expected sizes."""
        executable, arena = self._instance.executable, self._instance.arena

        def sized(port: Port, shape: tuple[int, ...], size_bytes: int) -> Port:
            return replace(port, dimensions=shape, size_bytes=size_bytes)

        inputs = [
            sized(port, shape, port.operand.type.dtype.itemsize * prod(shape))
            for port, shape in zip(executable.inputs, self._input_shapes, strict=True)
        ]
        outputs = [
            StepPort(
                dtype=port.operand.type.dtype,
                shape=shape,
                size_bytes=size_bytes,
                own=arena + (port.offset or 0) if number in self.copied_outputs else 0,
                cells=(),
            )
            for number, (port, (shape, size_bytes)) in enumerate(
                zip(executable.outputs, self._sizes(self._expected), strict=True)
            )
        ]
        return StepPorts(self._instance.input_ports(inputs), outputs)

    def _sizes(self, lengths: bytes) -> _Sizes:
        """Returns the shapes and sizes of the outputs for these lengths."""
        found = self._known.get(lengths)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            shapes = self._opened.output_shapes(np.frombuffer(lengths, np.int64).tolist())
            ports = self._instance.executable.outputs
            found = self._known[lengths] = [
                (shape, port.operand.type.dtype.itemsize * prod(shape))
                for shape, port in zip(shapes, ports, strict=True)
            ]
        return found

    def expected_shapes(self) -> list[tuple[int, ...]]:
        """Returns the shapes of the outputs as `run` expects them."""
        return self.shapes(self._expected)

    def shapes(self, lengths: bytes) -> list[tuple[int, ...]]:
        """Returns the shapes of the outputs for lengths that `run` has returned."""
        return [shape for shape, _ in self._sizes(lengths)]

    def time_ns(self, runs: int, arrays: Sequence[Array] = ()) -> int:
        """Returns the shortest time of several runs, on arrays if they are bound."""
        times = []
        for _ in range(runs):
            self._lengths[:] = self._begin
            started = time.perf_counter_ns()
            self._run(*arrays)
            times.append(time.perf_counter_ns() - started)
        return min(times)

    def run(self) -> bytes | None:
        """Runs the step on the memory that is bound.

        Returns:
            None if it did not finish, or no lengths if they are those of the last run, whose
                outputs have the same sizes and are written. Otherwise the lengths; then call
                `write`.
        """
        lengths = self._lengths
        lengths[:] = self._begin
        if not self._run():
            return None
        after = lengths.tobytes()
        return b"" if after == self._expected else after

    def write(self, lengths: bytes) -> None:
        """Writes the outputs of a run that has found other lengths; they fit."""
        ports, sizes = self._instance.executable.outputs, self._sizes(lengths)
        for number in self.copied_outputs:
            start = self._instance.arena + (ports[number].offset or 0)
            ctypes.memmove(self._outputs[number], start, sizes[number][1])
        self._expect(lengths, sizes)

    def _expect(self, lengths: bytes, sizes: _Sizes) -> None:
        """Lets the next runs write outputs of other sizes."""
        # Nothing is expected if this is interrupted.
        self._expected = b""
        for number, (shape, size_bytes) in enumerate(sizes):
            self._ports.resize(self._ports.inputs + number, shape, size_bytes)
        self.expected_bytes = sum([size_bytes for _, size_bytes in sizes])
        self._expected = lengths

    def run_arrays(self, *arrays: Array) -> list[Array] | None:
        """Runs the step on arrays, and returns new arrays.

        Returns:
            None if an array is not a contiguous one of the input's type and shape, if the step did
                not finish, or if another thread runs it.
        """
        # A name of the argument takes twice as long as the rest of the call.
        if not self._lock.acquire(False):
            return None
        try:
            self._lengths[:] = self._begin
            found: list[Array] | None = self._run(*arrays)  # type: ignore[assignment]
            # A comparison with the memory takes twice as long.
            lengths = self._lengths.tobytes()
            if found is None or lengths == self._expected:
                return found
            return self._resized(lengths)
        finally:
            self._lock.release()

    def is_used(self) -> bool:
        """Returns True if a thread runs it on arrays."""
        return self._lock.locked()

    def _resized(self, lengths: bytes) -> list[Array]:
        """Returns the outputs of a run that has found other lengths."""
        found = []
        ports, sizes = self._instance.executable.outputs, self._sizes(lengths)
        for port, (shape, size_bytes) in zip(ports, sizes, strict=True):
            result = np.empty(shape, port.operand.type.dtype)
            ctypes.memmove(result.ctypes.data, self._instance.arena + (port.offset or 0), size_bytes)
            found.append(result)
        self._expect(lengths, sizes)
        return found
