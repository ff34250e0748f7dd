"""Repeats runs of models without binding their arguments each time.

Binding arguments and what devices and plans of several steps do with new ones take tens of
microseconds, up to hundreds. Therefore each thread keeps reusable executions, whose arguments are
arrays of their own. A run copies its inputs to these arrays, computes, and returns copies of the
outputs, which takes less time unless the arrays are large.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from neurald.hal.lazy_numpy import np
from neurald.hal.model.types import Dimensions, value_size
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.variables.state import Array

if TYPE_CHECKING:
    from neurald.runtime.execution.execution import Execution

#: Shapes and types of the inputs of a run, and their classes: derived ones, as that of masked
#: arrays, may mean something else.
_InputSignature: TypeAlias = tuple[tuple[tuple[int, ...], "np.dtype[Any]", type], ...]

#: Maximum total size of the inputs and outputs of a run, in bytes. Copying 4 MiB takes as long as
#: binding arguments.
MAX_BYTES = 2 << 20
#: Number of input signatures for which a thread keeps an execution, and the total size of their
#: arrays. The least recently used ones are dropped.
SIGNATURE_CACHE_SIZE, MAX_KEPT_BYTES = 4, 4 << 20


class _QuickRun(Struct, frozen=True, kw_only=True, eq=False):
    """A reusable execution and the arrays that it reads and writes."""

    execution: "Execution"
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    @property
    def size_bytes(self) -> int:
        """The size of the arrays."""
        return sum(array.nbytes for array in (*self.inputs, *self.outputs))

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        for own, given in zip(self.inputs, arrays, strict=True):
            own[...] = given
        self.execution.compute()
        return [output.copy() for output in self.outputs]


class QuickRuns:
    """The executions of one compilation that the threads of the process keep. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()
        #: Whether any thread has kept one: asking a thread's own memory takes longer.
        self._is_used = False

    def run(self, arrays: Sequence[Any]) -> list[Array] | None:
        """Runs the model on inputs of the same signature as in an earlier run of this thread.

        Returns:
            The outputs; None if there was no such run, or if its execution is in use.

        Raises:
            Error: the execution failed.
        """
        if not self._is_used:
            return None
        by_signature: dict[_InputSignature, _QuickRun] | None = getattr(self._local, "by_signature", None)
        if not by_signature:
            return None
        try:
            signature = tuple([(array.shape, array.dtype, type(array)) for array in arrays])
            # A signal handler or a finalizer may run the model on this thread in the meantime, so
            # the execution is removed while it computes. After a failure it is not put back.
            quick_run = by_signature.pop(signature, None)
        except Exception:  # Those of other objects may be any.
            return None
        if quick_run is None:
            return None
        outputs = quick_run(arrays)
        by_signature[signature] = quick_run
        return outputs

    def first_run(
        self, compilation: CompiledModel, inputs: Sequence[Array | None], output_shapes: Sequence[Dimensions]
    ) -> list[Array] | None:
        """Runs the model and keeps its execution for later runs on inputs of the same signature.

        Args:
            compilation: the compilation, or a weak proxy of it. (The compilation owns this object,
                and executions refer to the compilation.)
            inputs: an array of the operand's type for each input; None for an omitted input.
            output_shapes: the shapes of the outputs, as far as they are known.

        Returns:
            The outputs; None if an input is omitted, has strings or is of another type than the
                model's, if an output has an unknown size, or if the arrays are too large.

        Raises:
            Error: the execution failed.
        """
        from neurald.runtime.execution.execution import Execution  # slow to import

        model = compilation.model
        types = [operand.type for operand in model.output_operands]
        given = [
            array
            for array, operand in zip(inputs, model.input_operands, strict=True)
            if array is not None and array.dtype == operand.type.dtype and array.dtype != object
        ]
        sizes = [
            value_size(operand_type, shape) for operand_type, shape in zip(types, output_shapes, strict=True)
        ]
        known = [size for size in sizes if size is not None]
        if len(given) < len(inputs) or len(known) < len(sizes):
            return None
        if sum(array.nbytes for array in given) + sum(known) > MAX_BYTES:
            return None
        quick_run = _QuickRun(
            execution=Execution(compilation, reusable=True),
            inputs=tuple(np.empty(array.shape, array.dtype) for array in given),
            outputs=tuple(
                np.empty(shape, operand_type.dtype)
                for shape, operand_type in zip(output_shapes, types, strict=True)
            ),
        )
        for position, array in enumerate(quick_run.inputs):
            quick_run.execution.set_input(position, array)
        for position, array in enumerate(quick_run.outputs):
            quick_run.execution.set_output(position, array)
        results = quick_run(given)
        self._keep(tuple([(array.shape, array.dtype, type(array)) for array in given]), quick_run)
        return results

    def _keep(self, signature: _InputSignature, quick_run: _QuickRun) -> None:
        self._is_used = True
        by_signature: dict[_InputSignature, _QuickRun] = self._local.__dict__.setdefault("by_signature", {})
        by_signature[signature] = quick_run
        while (
            len(by_signature) > SIGNATURE_CACHE_SIZE
            or sum(each.size_bytes for each in by_signature.values()) > MAX_KEPT_BYTES
        ):
            del by_signature[next(iter(by_signature))]
