"""Runs small models again without the cost of binding their arguments again.

Binding arguments takes tens of microseconds, which is more than a small model takes to compute. A
reusable execution binds them once. Here each thread keeps reusable executions whose arguments are
arrays of its own. A run copies its inputs there, computes, and returns copies of the outputs, which
is fast while the arrays are small.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from neurald.hal.model.types import Dimensions, value_size
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.execution import Execution

Array = np.ndarray[Any, Any]
#: Shapes and types of the inputs of a run.
_Form: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]

#: Maximum size of the inputs and outputs of a run, in bytes. Copying more would take longer than
#: binding it.
MAX_BYTES = 64 << 10
#: Forms for which a thread keeps an execution; the least recently used one is dropped.
FORM_CACHE_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _QuickRun:
    """A reusable execution and the arrays that it reads and writes."""

    execution: Execution
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        for own, given in zip(self.inputs, arrays, strict=True):
            own[...] = given
        self.execution.compute()
        return [output.copy() for output in self.outputs]


class QuickRuns:
    """The executions that the threads of a process keep for one compilation. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()

    def run(self, arrays: Sequence[Any]) -> list[Array] | None:
        """Runs the model on inputs like those of an earlier run of this thread.

        Returns:
            The outputs; None if there was no such run, or if it is still running.

        Raises:
            Error: the execution failed.
        """
        forms: dict[_Form, _QuickRun] | None = getattr(self._local, "forms", None)
        if not forms:
            return None
        try:
            form = tuple([(array.shape, array.dtype) for array in arrays])
            # A signal handler or a finalizer may run the model on this thread meanwhile, so the
            # execution is not in the table while it computes. Nor is one that failed afterwards.
            quick_run = forms.pop(form, None)
        except (AttributeError, TypeError):
            return None
        if quick_run is None:
            return None
        outputs = quick_run(arrays)
        forms[form] = quick_run
        return outputs

    def first_run(
        self, compilation: CompiledModel, inputs: Sequence[Array | None], output_shapes: Sequence[Dimensions]
    ) -> list[Array] | None:
        """Runs the model and keeps its execution for later runs on such inputs.

        Args:
            compilation: the compilation, or a weak proxy of it: it owns this object, and executions
                refer to it.
            inputs: an array of the operand's type for each input; None for one that is omitted.
            output_shapes: the shapes of the outputs as far as they are known.

        Returns:
            The outputs; None if the model, or an input or output, does not allow it.

        Raises:
            Error: the execution failed.
        """
        model = compilation.model
        kinds = [model.main.operands[index].type for index in model.outputs]
        given = [array for array in inputs if array is not None and array.dtype != object]
        sizes = [value_size(kind, shape) for kind, shape in zip(kinds, output_shapes, strict=True)]
        known = [size for size in sizes if size is not None]
        if len(given) < len(inputs) or len(known) < len(sizes):
            return None
        if sum(array.nbytes for array in given) + sum(known) > MAX_BYTES:
            return None
        quick_run = _QuickRun(
            execution=Execution(compilation, reusable=True),
            inputs=tuple(np.empty(array.shape, array.dtype) for array in given),
            outputs=tuple(
                np.empty(shape, kind.dtype) for shape, kind in zip(output_shapes, kinds, strict=True)
            ),
        )
        for position, array in enumerate(quick_run.inputs):
            quick_run.execution.set_input(position, array)
        for position, array in enumerate(quick_run.outputs):
            quick_run.execution.set_output(position, array)
        results = quick_run(given)
        self._keep(tuple([(array.shape, array.dtype) for array in given]), quick_run)
        return results

    def _keep(self, form: _Form, quick_run: _QuickRun) -> None:
        forms = self._local.__dict__.setdefault("forms", {})
        forms[form] = quick_run
        if len(forms) > FORM_CACHE_SIZE:
            del forms[next(iter(forms))]
