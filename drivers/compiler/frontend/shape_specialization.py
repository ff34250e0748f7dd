"""Models with dimensions that only an execution tells: compiled once for each set of shapes that comes, and the last ones kept."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, KernelTime, PreparedModel
from neurald.hal.errors import BadData, MissedDeadlineTransient, OpFailed
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.reusable import reusable_execution
from neurald.hal.model.types import Model, Operand, Request
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.validation.shape_inference import bind_operations, declared_shape, infer_shapes

#: Sets of shapes whose models are kept.
_KEPT = 8
#: What an unspecified dimension is taken for, to say which operations are supported.
_ASSUMED = 1
#: How often an execution that waits for another one looks whether it is still wanted.
_LOOK_S = 0.02


class Prepared(PreparedModel, Protocol):
    """A prepared model that knows the operands of its model."""

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """What the model says of an input or output; BadData where there is none of that index."""
        ...


def is_specified(model: Model) -> bool:
    """Whether the shapes of all inputs are known before execution."""
    main = model.main
    return all(main.operands[index].is_fully_specified for index in main.inputs)


def assumed(model: Model) -> Model:
    """The model with every unspecified dimension of an input taken for 1, as far as ranks are known."""
    main = model.main
    shapes = {
        index: tuple(length or _ASSUMED for length in operand.dimensions)
        for index in main.inputs
        if declared_shape(operand := main.operands[index]) is None and operand.dimensions is not None
    }
    try:
        return with_shapes(model, shapes)
    except BadData:
        return model


def with_shapes(model: Model, shapes: Mapping[int, Shape]) -> Model:
    """The model with the dimensions that follow from those of inputs, as far as they do.

    Args:
        model: valid.
        shapes: of inputs, by operand.

    Raises:
        BadData: shapes do not fit together, or contradict what the model declares.
    """
    main = model.main
    found = infer_shapes(model, main, bind_operations(main), shapes)
    operands = tuple(
        operand
        if operand.is_fully_specified or index not in found
        else replace(operand, dimensions=found[index])
        for index, operand in enumerate(main.operands)
    )
    return replace(model, main=replace(main, operands=operands))


class SpecializingModel(InProcessModel):
    """Implements `PreparedModel` with one prepared model for each set of input shapes.

    Args:
        model: with unspecified dimensions.
        prepare: prepares it for inputs of these shapes, by operand, within the limits of an execution; raises BadData where they
            do not fit.
        owner: the device whose model it is.
        tolerant: see `PreparedModel.tolerates_changing_inputs`.
    """

    def __init__(
        self,
        model: Model,
        prepare: Callable[[Model, Mapping[int, Shape], ExecuteOptions], Prepared],
        *,
        owner: object,
        tolerant: bool,
    ) -> None:
        self.owner = owner
        self._model = model
        self._prepare = prepare
        self._lock = forkable_lock()
        self._kept: OrderedDict[tuple[Shape | None, ...], Prepared] = OrderedDict()
        self.tolerates_changing_inputs = tolerant

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """What the model says of an input or output.

        Raises:
            BadData: there is none of that index.
        """
        main = self._model.main
        indexes = main.outputs if is_output else main.inputs
        if not 0 <= index < len(indexes):
            raise BadData(f"{'output' if is_output else 'input'} {index}; the model has {len(indexes)}")
        return main.operands[indexes[index]]

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. The first execution with some shapes compiles for them."""
        return self._variant(self._shapes(request), options).execute(request, options)

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        with self._lock:
            variant = self._kept.get(self._shapes(request))
        return reusable_execution(variant, request)

    def _shapes(self, request: Request) -> tuple[Shape | None, ...]:
        main = self._model.main
        return tuple(
            main.operands[index].dimensions if argument.dimensions is None else argument.dimensions
            for index, argument in zip(main.inputs, request.inputs, strict=True)
        )

    def _variant(self, shapes: tuple[Shape | None, ...], options: ExecuteOptions) -> Prepared:
        with self._locked(options):
            found = self._kept.get(shapes)
            if found is None:
                known = {
                    index: shape
                    for index, shape in zip(self._model.main.inputs, shapes, strict=True)
                    if shape is not None
                }
                try:
                    found = self._prepare(self._model, known, options)
                except BadData as error:
                    raise OpFailed(
                        f"with inputs of shapes {[list(s or ()) for s in shapes]}: {error}"
                    ) from None
                self._kept[shapes] = found
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(shapes)
            return found

    @contextmanager
    def _locked(self, options: ExecuteOptions) -> Iterator[None]:
        """Holds the lock, which another execution may have for as long as it takes to compile."""
        while not self._lock.acquire(timeout=_LOOK_S):
            if options.cancellation is not None:
                options.cancellation.require_not_cancelled("while another one compiled")
            if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
                raise MissedDeadlineTransient("the deadline passed while another execution compiled")
        try:
            yield
        finally:
            self._lock.release()

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`: which shapes will come is not known."""
        return None

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`: for the shapes that came last; empty before the first execution."""
        with self._lock:
            last = next(reversed(self._kept.values()), None)
        return () if last is None else last.profile()
