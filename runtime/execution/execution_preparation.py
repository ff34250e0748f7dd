"""The part of an execution that is set before it computes: its buffers and its settings.

An execution is in one of three states: preparation, computation or completed. Buffers and settings
can be changed only in preparation. A rejected call changes nothing.
"""

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

from neurald.hal.api_arguments import flag, number, time_limit
from neurald.hal.device import MAX_LOOP_TIMEOUT_S
from neurald.hal.errors import BadData, BadState
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Dimensions
from neurald.hal.process.fork import forkable_reentrant_lock
from neurald.hal.unpicklable import Unpicklable
from neurald.runtime.execution.binding.arguments import ExecutionArguments
from neurald.runtime.execution.compiled_model import COMPILE_ELSEWHERE, CompiledModel, require_compiled
from neurald.runtime.execution.execution_settings import ExecutionSettings

if TYPE_CHECKING:
    # Only programs that give names need it.
    from neurald.runtime.model.tensor_names import Kind


class _ExecutionState(Enum):
    """The states of an execution; see the docstring of the module."""

    PREPARATION = auto()
    COMPUTATION = auto()
    COMPLETED = auto()


# Looking up a member of an enumeration takes longer than a global variable.
PREPARATION, COMPUTATION, COMPLETED = _ExecutionState


class ExecutionPreparation(Unpicklable):
    """The buffers and settings of an execution, which it takes until it starts. Thread-safe.

    Args:
        compilation: a finished compilation.
        reusable: True if it may compute again after it has completed.

    Raises:
        UnexpectedNull: `compilation` is None.
        BadState: the compilation is not finished.
    """

    instead_of_pickling = COMPILE_ELSEWHERE

    def __init__(self, compilation: CompiledModel, *, reusable: bool = False) -> None:
        require_compiled(compilation)
        self._compilation = compilation
        self._arguments = ExecutionArguments(compilation.model, compilation)
        self._settings = ExecutionSettings()
        self._reusable = flag(reusable, "whether the execution is reusable")
        self._state = PREPARATION
        # A signal handler may cancel an execution while its thread is in one of these methods.
        self._lock = forkable_reentrant_lock()

    def __repr__(self) -> str:
        return f"<Execution of {self._compilation!r}, {self._state.name.lower()}>"

    @property
    def compilation(self) -> CompiledModel:
        """The compilation that is executed."""
        return self._compilation

    def enable_input_and_output_padding(self, enable: bool = True) -> None:
        """Allows the memory of inputs and outputs to be larger than their data.

        A device may then read the bytes after an input and write the bytes after an output.
        `Compilation.preferred_memory_padding_for_input` returns the multiple that it prefers.

        Args:
            enable: whether to allow padding.

        Raises:
            BadState: an input or output is already bound, or the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.enable_padding(flag(enable, "whether padding is enabled"))

    def set_input(self, index: int | str, array: Array | None, dimensions: Dimensions = None) -> None:
        """Binds an array as an input; None omits an optional one.

        The array is read in place when the execution computes. Its shape sets the dimensions that
        the model leaves open, unless `dimensions` does. An array of strings, which may be objects
        (bytes or text) or one of NumPy's string types, is copied now.

        Args:
            index: the position of the input, or its name.
            array: its value; None if the operand is optional and omitted.
            dimensions: the shape of this value; by default that of the array.

        Raises:
            BadData: there is no such input, or the array is not C-contiguous or has another type or
                shape than the model's.
            BadState: the input is already bound, or the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_input(self._position(index, "input"), array, dimensions)

    def set_output(self, index: int | str, array: Array, dimensions: Dimensions = None) -> None:
        """Binds an array as an output, which is written in place.

        If the model and `dimensions` leave the shape open, the array is only a buffer, which is
        filled from its start; `output_dimensions` returns the actual shape. A string output needs
        an array of objects, which receives bytes.

        Args:
            index: the position of the output, or its name.
            array: the memory of the output.
            dimensions: its shape, if the model leaves it open and it is known.

        Raises:
            BadData: there is no such output, or the array is read-only, not C-contiguous, or of
                another type or size than the model's.
            BadState: the output is already bound, or the execution has started.
            UnexpectedNull: `array` is None.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_output(self._position(index, "output"), array, dimensions)

    def set_input_from_memory(
        self, index: int | str, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds `length` bytes of `memory`, from `offset`, as an input.

        Args:
            index: the position of the input, or its name.
            memory: the memory that holds the bytes.
            offset: the offset of the first byte; 0 for device memory, which is always used as a
                whole.
            length: the length in bytes; 0 for device memory.
            dimensions: the shape, where the model leaves it open.

        Raises:
            BadData: there is no such input, the range is outside the memory, or its length is not
                the input's size.
            BadState: the input is already bound, or the execution has started.
            UnexpectedNull: `memory` is None.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_input_from_memory(
                self._position(index, "input"), memory, offset, length, dimensions
            )

    def set_output_from_memory(
        self, index: int | str, memory: Memory, offset: int, length: int, dimensions: Dimensions = None
    ) -> None:
        """Binds bytes of a memory as an output; see `set_input_from_memory`.

        Args:
            index: the position of the output, or its name.
            memory, offset, length, dimensions: as for `set_input_from_memory`.
        """
        with self._lock:
            self._require_preparation()
            self._arguments.set_output_from_memory(
                self._position(index, "output"), memory, offset, length, dimensions
            )

    def _position(self, index: int | str, kind: "Kind") -> int:
        """Returns a position; see `tensor_position`."""
        if not isinstance(index, str):
            return index
        from neurald.runtime.model.tensor_names import tensor_position  # rarely needed

        return tensor_position(self._compilation.model, index, kind)

    def set_reusable(self, reusable: bool = True) -> None:
        """Allows the execution to compute again after it has completed.

        Args:
            reusable: whether the execution may compute again.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._reusable = flag(reusable, "whether the execution is reusable")

    def set_measure_timing(self, measure: bool = True) -> None:
        """Enables timing, so that `duration` returns values.

        Args:
            measure: whether to measure.

        Raises:
            BadData: strict mode forbids it.
            BadState: the execution has started.
        """
        self._compilation.require_one_device("timing")
        with self._lock:
            self._require_preparation()
            self._settings.measure = flag(measure, "whether timing is measured")

    def set_timeout(self, seconds: float | None) -> None:
        """Limits the time of one computation, in seconds; None, 0 and infinity for no limit.

        A computation that exceeds the limit ends soon after, even within a step, with
        MissedDeadlineTransient or MissedDeadlinePersistent.

        Raises:
            BadData: the time is negative, or strict mode forbids it.
            BadState: the execution has started.
        """
        self._compilation.require_one_device("a time limit")
        limit = time_limit(seconds, "the timeout")
        with self._lock:
            self._require_preparation()
            self._settings.timeout_s = limit

    def set_loop_timeout(self, seconds: float) -> None:
        """Limits the time of one WHILE operation, in seconds; the default is 2, the maximum 15.

        Raises:
            BadData: the time is negative.
            BadState: the execution has started.
        """
        limit = number(seconds, "the loop timeout")
        if not limit >= 0:
            raise BadData(f"the loop timeout is {limit} s; it must not be negative")
        with self._lock:
            self._require_preparation()
            self._settings.loop_timeout_s = min(limit, MAX_LOOP_TIMEOUT_S)

    def allow_endless_loops(self) -> None:
        """Lets WHILE operations of in-process devices take any time, as in LiteRT.

        Only neurald itself calls this. A daemon still ends loops after the maximum of
        `set_loop_timeout`.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._settings.loop_timeout_s = math.inf

    def add_extension_attribute(self, extension: str, attribute: int, value: bytes) -> None:
        """Sets an attribute of a vendor's extension for all computations of this execution.

        Args:
            extension, attribute, value: as for `CompilationBuilder.add_extension_attribute`.

        Raises:
            BadData: the compilation was not made for a list of exactly one device, that device does
                not declare the attribute, or the attribute already has a value.
            BadState: the execution has started.
        """
        with self._lock:
            attributes = self._compilation.with_attribute(
                self._settings.attributes, extension, attribute, value
            )
            self._require_preparation()
            self._settings.attributes = attributes

    def enable_receipt(self, enable: bool = True) -> None:
        """Sets whether computations keep a receipt, see `receipt`.

        They take some microseconds more.

        Args:
            enable: whether computations keep a receipt.

        Raises:
            BadState: the execution has started.
        """
        with self._lock:
            self._require_preparation()
            self._settings.wants_receipt = flag(enable, "whether a receipt is kept")

    def _require_preparation(self) -> None:
        if self._state is not PREPARATION:
            raise BadState("the execution has started; buffers and settings can be changed before that only")
