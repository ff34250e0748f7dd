"""Control flow that begins on references, and runs natively once it is worth binding.

Inlining control flow and binding it takes longer than all else that a first tier needs. So it is
done in the background when executions on references have taken about as long. An execution that
runs then begins again in native code.
"""

import logging
import os
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native_segment import NativeSegment
from neurald.hal.device import KernelTime
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.background import BackgroundWorker
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.reference_graph import ReferenceGraph, Step
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

_LOG = logging.getLogger(__name__)

#: Time on references after which the model is bound.
_PATIENCE_S: Final = 0.05
#: Others wait for compiling processes, whose code then replaces the first tier.
_worker: Final = BackgroundWorker()


class _Bound(Exception):
    """The model runs natively from now on."""


class LoopModel(ReferenceModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        model: a model with control flow. Each of its operations has a reference.
        steps: until the model is bound; see `ReferenceModel`.
        bind: returns the model as one native step; None if that is not possible.
        bind_part: returns an operation of the main graph as a native step, likewise.
    """

    def __init__(
        self,
        model: Model,
        steps: Sequence[Sequence[Step] | None] | None,
        bind: Callable[[], NativeModel | None],
        bind_part: Callable[[int], NativeSegment | None],
    ) -> None:
        super().__init__(model, steps)
        self._make, self._make_part = bind, bind_part
        self._whole: NativeSegment | None = None
        self._spent_s = 0.0
        #: The process that binds it; a forked child begins again.
        self._binding = 0

    @property
    def native(self) -> NativeModel | None:
        """The model as one step; None before it is bound."""
        return None if self._whole is None else self._whole.native

    def bind(self) -> None:
        """Binds the model, or else those of its loops and branches for which that is possible."""
        main, native = self._model.main, self._make()
        if native is not None:
            self._whole = NativeSegment(
                operations=tuple(range(len(main.operations))),
                inputs=main.inputs,
                outputs=main.outputs,
                native=native,
            )
            return
        parts = {step: self._make_part(step) for step in self._main.steps if isinstance(step, int)}
        if any(parts.values()):
            # Executions that run keep the graph with which they began.
            self._main = ReferenceGraph(
                self._model,
                main,
                [(parts[step] or step) if isinstance(step, int) else step for step in self._main.steps],
            )

    def results(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> Sequence[Array]:
        """See `ReferenceModel.results`."""
        if self._whole is None:
            started = time.monotonic()
            try:
                return super().results(inputs, _WatchedLimits(limits, self, started - self._spent_s))
            except _Bound:
                _LOG.debug("an execution begins again in native code")
            finally:
                self._spent_s += time.monotonic() - started
        limits.check("before the execution started")
        found = None if self._whole is None else self._whole.run(inputs, limits.options)
        # It does not take omitted inputs, and inputs of other shapes.
        return super().results(inputs, limits) if found is None else [array for array, _ in found]

    def look(self, since_s: float) -> None:
        """Looks whether to bind the model, or whether that has been done.

        Args:
            since_s: when executions on references would have begun if there were no other time.

        Raises:
            _Bound: the model is bound.
        """
        if self._whole is not None:
            raise _Bound
        if self._binding != os.getpid() and time.monotonic() - since_s > _PATIENCE_S:
            self._binding = os.getpid()
            cancellation = _worker.submit(partial(_bind, weakref.ref(self)))
            if cancellation is not None:
                weakref.finalize(self, cancellation.cancel).atexit = False

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`."""
        if variables or len(shapes) != len(self._model.main.inputs):
            return None
        function: ArrayFunction | None = None

        def run(*arrays: Array) -> list[Array] | None:
            nonlocal function
            if function is None:
                if self._whole is None:
                    return None
                function = self._whole.array_function(shapes) or _refuse
            return function(*arrays)

        return run

    def profile(self) -> tuple[KernelTime, ...]:
        """See `ReferenceModel.profile`."""
        return super().profile() if self._whole is None else tuple(self._whole.profile())


def _refuse(*arrays: Array) -> None:
    """Implements `ArrayFunction` where there is none."""


class _WatchedLimits(ExecutionLimits):
    """The limits of an execution on references, which ends when the model is bound.

    Args:
        limits: of the execution.
        model: the model.
        since_s: see `LoopModel.look`.
    """

    def __init__(self, limits: ExecutionLimits, model: LoopModel, since_s: float) -> None:
        super().__init__(limits.options)
        self._model, self._since_s = model, since_s

    def check(self, where: str) -> None:
        """See `ExecutionLimits.check`."""
        super().check(where)
        self._model.look(self._since_s)


def _bind(model: "weakref.ref[LoopModel]", cancellation: Cancellation) -> None:
    found = model()
    if found is not None:
        found.bind()
