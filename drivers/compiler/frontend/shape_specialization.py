"""Compiles models with unspecified dimensions once for each set of input shapes."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, KernelTime, PreparedModel
from neurald.hal.errors import BadData, MissedDeadlineTransient, OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction, array_function, short_execution
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.reusable import reusable_execution
from neurald.hal.memory.pool import Memory
from neurald.hal.model.types import Model, Operand, Request
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.validation.shape_inference import bind_operations, declared_shape, infer_shapes

#: Number of compiled variants of a model; the least recently used one is dropped.
_VARIANT_CACHE_SIZE = 8
#: Length assumed for unspecified dimensions when deciding which operations are supported.
_ASSUMED_LENGTH = 1
#: Interval at which an execution that waits for the lock checks cancellation and deadline.
_POLL_S = 0.02


class PreparedWithOperands(PreparedModel, Protocol):
    """A prepared model that also describes its model's operands."""

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        ...


def is_specified(model: Model) -> bool:
    """Returns True if the shapes of all inputs are known before execution."""
    main = model.main
    return all(main.operands[index].is_fully_specified for index in main.inputs)


def with_assumed_shapes(model: Model) -> Model:
    """Returns the model with unspecified input dimensions set to 1, where the rank is known."""
    main = model.main
    shapes = {
        index: tuple(length or _ASSUMED_LENGTH for length in operand.dimensions)
        for index in main.inputs
        if declared_shape(operand := main.operands[index]) is None and operand.dimensions is not None
    }
    try:
        return with_shapes(model, shapes)
    except BadData:
        return model


def with_shapes(model: Model, shapes: Mapping[int, Shape]) -> Model:
    """Returns the model with the dimensions inferred from input shapes filled in.

    Args:
        model: valid.
        shapes: the input shapes, by operand.

    Raises:
        BadData: the shapes are inconsistent, or contradict what the model declares.
    """
    main = model.main
    inferred = infer_shapes(model, main, bind_operations(main), shapes)
    operands = tuple(
        operand
        if operand.is_fully_specified or index not in inferred
        else replace(operand, dimensions=inferred[index])
        for index, operand in enumerate(main.operands)
    )
    return replace(model, main=replace(main, operands=operands))


class SpecializingModel(InProcessModel):
    """Implements `PreparedModel` with one prepared model per set of input shapes.

    Args:
        model: the model, with unspecified dimensions.
        prepare: prepares the model for input shapes, by operand, within the limits of an execution.
            It raises BadData if the model does not support the shapes.
        owner: the device that owns the model.
        tolerant: see `PreparedModel.tolerates_changing_inputs`.
    """

    def __init__(
        self,
        model: Model,
        prepare: Callable[[Model, Mapping[int, Shape], ExecuteOptions], PreparedWithOperands],
        *,
        owner: object,
        tolerant: bool,
    ) -> None:
        self.owner = owner
        self._model = model
        self._prepare = prepare
        self._lock = forkable_lock()
        self._variants: OrderedDict[tuple[Shape | None, ...], PreparedWithOperands] = OrderedDict()
        self.tolerates_changing_inputs = tolerant

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        main = self._model.main
        indexes = main.outputs if is_output else main.inputs
        if not 0 <= index < len(indexes):
            raise BadData(
                f"there is no {'output' if is_output else 'input'} {index}; the model has {len(indexes)}"
            )
        return main.operands[indexes[index]]

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. The first execution with these shapes compiles the model."""
        return self._variant(self._shapes(request), options).execute(request, options)

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        with self._lock:
            variant = self._variants.get(self._shapes(request))
        return reusable_execution(variant, request)

    def create_short_execution(self, request: Request) -> Callable[[], bool] | None:
        """See `CallsDirectly.create_short_execution`."""
        with self._lock:
            variant = self._variants.get(self._shapes(request))
        return short_execution(variant, request)

    def create_array_function(
        self, shapes: Sequence[Shape], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`."""
        main = self._model.main
        declared = [main.operands[index].dimensions for index in main.inputs[len(shapes) :]]
        with self._lock:
            variant = self._variants.get((*shapes, *declared))
        return array_function(variant, shapes, variables)

    def _shapes(self, request: Request) -> tuple[Shape | None, ...]:
        main = self._model.main
        return tuple(
            main.operands[index].dimensions if argument.dimensions is None else argument.dimensions
            for index, argument in zip(main.inputs, request.inputs, strict=True)
        )

    def _variant(self, shapes: tuple[Shape | None, ...], options: ExecuteOptions) -> PreparedWithOperands:
        with self._locked(options):
            variant = self._variants.get(shapes)
            if variant is None:
                known = {
                    index: shape
                    for index, shape in zip(self._model.main.inputs, shapes, strict=True)
                    if shape is not None
                }
                try:
                    variant = self._prepare(self._model, known, options)
                except BadData as error:
                    raise OpFailed(f"inputs of shapes {[list(s or ()) for s in shapes]}: {error}") from None
                self._variants[shapes] = variant
                while len(self._variants) > _VARIANT_CACHE_SIZE:
                    self._variants.popitem(last=False)
            self._variants.move_to_end(shapes)
            return variant

    @contextmanager
    def _locked(self, options: ExecuteOptions) -> Iterator[None]:
        """Holds the lock, for which it waits while another execution compiles.

        Raises:
            Cancelled: the execution was cancelled meanwhile.
            MissedDeadlineTransient: its deadline passed meanwhile.
        """
        while not self._lock.acquire(timeout=_POLL_S):
            if options.cancellation is not None:
                options.cancellation.require_not_cancelled("while another one compiled")
            if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
                raise MissedDeadlineTransient("the deadline passed while another execution compiled")
        try:
            yield
        finally:
            self._lock.release()

    def artifact(self) -> Artifact | None:
        """Returns None, because the input shapes are not known in advance."""
        return None

    def profile(self) -> Sequence[KernelTime]:
        """Returns the profile for the latest input shapes; empty before the first execution."""
        with self._lock:
            last = next(reversed(self._variants.values()), None)
        return () if last is None else last.profile()
