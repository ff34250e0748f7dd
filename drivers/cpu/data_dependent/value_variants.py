"""Models with arguments that compiled code must know, such as the axes of a reduction.

If such an argument is an input of the model, the model is also compiled for each value of it that
is frequent, in the background. Executions with other values take the usual way.
"""

import logging
import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.structured_model import CONTROL_FLOW
from neurald.drivers.compiler.frontend.variants.variant_uses import VariantUses, improving
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, KernelTime
from neurald.hal.errors import Error, OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.execution.background_worker import SubmittedWork, worker
from neurald.hal.execution.direct_calls import ArrayFunction, ShortExecution, array_function, short_execution
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.execution.reusable import ReusableExecution, reusable_execution
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

_LOG = logging.getLogger(__name__)

#: Maximum number of elements of such an argument, and of values for which there are variants.
_MAX_ELEMENTS: Final = 16
_MAX_VARIANTS: Final = 8
_INTEGERS: Final = frozenset((OperandType.TENSOR_INT32, OperandType.TENSOR_INT64))

#: The elements of all such arguments.
_Values: TypeAlias = tuple[bytes, ...]
#: A prepared model that is compiled as a whole or in parts.
CompiledModel: TypeAlias = CpuPreparedModel | ReferenceModel
#: Compiles a model in the background.
CompileLater: TypeAlias = Callable[[Model, Cancellation], CompiledModel]


def value_inputs(
    model: Model, prepared: CompiledModel, shapes: Mapping[int, Shape] | None = None
) -> tuple[int, ...]:
    """Returns the positions of the inputs whose values may decide whether operations are compiled.

    Args:
        model: the model.
        prepared: the model, compiled for any values as far as possible.
        shapes: the shapes of inputs that the model leaves open, by operand.
    """
    if isinstance(prepared, ReferenceModel):
        if len(prepared.compiled_operations) == len(model.main.operations):
            return ()
    elif not isinstance(prepared, GrowingModel):
        return ()
    main = model.main
    wanted: set[int] = set()
    for operation in main.operations:
        if operation.type not in CONTROL_FLOW and operation.type in DEFINITIONS:
            definition = DEFINITIONS[operation.type]
            for name, indexes in definition.bind(operation, main.operands).inputs.items():
                if name not in definition.arithmetic:
                    wanted.update(indexes)
    return tuple(
        position
        for position, index in enumerate(main.inputs)
        if index in wanted and _is_short(main.operands[index], _shape(main.operands[index], shapes, index))
    )


def _shape(operand: Operand, shapes: Mapping[int, Shape] | None, index: int) -> Shape | None:
    """Returns the shape of an input; None if it is not known."""
    if shapes is not None and index in shapes:
        return shapes[index]
    return operand.dimensions if operand.is_fully_specified else None


def _is_short(operand: Operand, shape: Shape | None) -> bool:
    return operand.type in _INTEGERS and shape is not None and math.prod(shape) <= _MAX_ELEMENTS


def with_values(
    model: Model,
    positions: Sequence[int],
    values: _Values,
    shapes: Mapping[int, Shape] | None = None,
) -> Model:
    """Returns a model in which inputs are constants.

    Args:
        model: the model.
        positions: the positions of the inputs.
        values: their elements.
        shapes: the shapes of inputs that the model leaves open, by operand.
    """
    main, operands = model.main, list(model.main.operands)
    for position, value in zip(positions, values, strict=True):
        index = main.inputs[position]
        operands[index] = replace(
            operands[index],
            lifetime=Lifetime.CONSTANT_COPY,
            dimensions=_shape(operands[index], shapes, index),
            value=value,
        )
    inputs = tuple(index for n, index in enumerate(main.inputs) if n not in positions)
    return replace(model, main=replace(main, operands=tuple(operands), inputs=inputs))


class ValueVariants(InProcessModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Args:
        model: the model.
        base: the model for any values.
        positions: see `value_inputs`.
        compile_later: compiles a model for given values. It runs in a thread of the background.
        shapes: the shapes of inputs that the model leaves open, by operand.
    """

    def __init__(
        self,
        model: Model,
        base: CompiledModel,
        positions: Sequence[int],
        compile_later: CompileLater,
        shapes: Mapping[int, Shape] | None = None,
    ) -> None:
        self._model, self.base, self._shapes = model, base, shapes
        self._positions = positions
        self._others = [n for n in range(len(model.main.inputs)) if n not in positions]
        self._compile_later = compile_later
        self._lock = forkable_lock()
        self._variants: OrderedDict[_Values, CompiledModel] = OrderedDict()
        #: Counts executions of the base with these values, and those of functions that repeat them.
        self._uses: OrderedDict[_Values, VariantUses] = OrderedDict()
        #: Functions that count do not keep the model alive.
        self._later = weakref.WeakMethod(self._specialize_later)
        self._requests: dict[int, tuple[weakref.ref[Request], Request]] = {}

    @property
    def tolerates_changing_inputs(self) -> bool:
        """See `PreparedModel.tolerates_changing_inputs`. Returns False: values choose the code."""
        return False

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output; raises BadData if there is none."""
        return self.base.operand(index, is_output=is_output)

    def artifact(self) -> Artifact | None:
        """See `PreparedModel.artifact`."""
        return self.base.artifact()

    def profile(self) -> Sequence[KernelTime]:
        """See `PreparedModel.profile`: of the latest variant, or of the base if there is none."""
        with self._lock:
            last = next(reversed(self._variants.values()), None)
        return self.base.profile() if last is None else last.profile()

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`."""
        values = self._values(request)
        if values is None:
            return self.base.execute(request, options)
        variant, uses = self._found(values)
        if variant is not None:
            return variant.execute(self._without_values(request), options)
        if uses is not None:
            uses.add()
            uses.give_way(options.deadline_s)
        return self.base.execute(request, options)

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        values = self._values(request)
        if values is None:
            return reusable_execution(self.base, request)
        variant, uses = self._found(values)
        if variant is not None:
            repeated = reusable_execution(variant, self._without_values(request))
            is_same = self._comparison(request, values)
            if repeated is None:
                return None

            def checked(cancellation: Cancellation) -> ExecutionResult | None:
                if not is_same():
                    raise OpFailed("there are other values now")
                return repeated(cancellation)

            return checked
        run = reusable_execution(self.base, request)
        if run is None or uses is None:
            return run

        def counted(cancellation: Cancellation) -> ExecutionResult | None:
            if uses.is_over:
                raise OpFailed("there is a variant for these values now")
            uses.add()
            uses.give_way()
            return run(cancellation)

        return counted

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """See `CallsDirectly.create_short_execution`."""
        values = self._values(request)
        if values is None:
            return short_execution(self.base, request)
        variant, uses = self._found(values)
        if variant is None:
            run = short_execution(self.base, request)
            if run is None or uses is None:
                return run
            return cast("ShortExecution", uses.counted_call(run))
        run = short_execution(variant, self._without_values(request))
        if run is None:
            return None
        is_same = self._comparison(request, values)
        return lambda: run() if is_same() else False

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`."""
        if variables:
            return None
        base = array_function(self.base, shapes, ())
        positions, others = self._positions, self._others
        rest = [shapes[n] for n in others if n < len(shapes)]
        indexes = [self._model.main.inputs[n] for n in positions]
        operands = [self._model.main.operands[index] for index in indexes]
        # Other arrays may have the same bytes.
        expected = [
            (position, operand.type.dtype, _shape(operand, self._shapes, index) or ())
            for position, operand, index in zip(positions, operands, indexes, strict=True)
        ]
        count = len(self._model.main.inputs)
        known: dict[_Values, ArrayFunction] = {}

        def run(*arrays: Any) -> list[Array] | None:
            if len(arrays) != count:
                return None
            given = []
            for position, dtype, shape in expected:
                array = arrays[position]
                if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                    return None
                given.append(array.tobytes())
            values = tuple(given)
            function = known.get(values)
            if function is None:
                # This needs no lock: uses are only counted as long as there is no variant.
                uses = self._uses.get(values)
                variant = None
                if uses is None:
                    variant, uses = self._found(values)
                if variant is None:
                    if base is None:
                        return None
                    if uses is not None:
                        uses.add()
                        uses.give_way()
                    return base(*arrays)
                function = array_function(variant, rest, ())
                if function is None:
                    return None
                if len(known) >= _MAX_VARIANTS:
                    known.clear()
                known[values] = function
            return function(*[arrays[n] for n in others])

        return run

    def _values(self, request: Request) -> _Values | None:
        """Returns the values of a request; None if it omits one."""
        found = []
        for position in self._positions:
            argument = request.inputs[position]
            if argument.pool is None:
                return None
            view = request.pools[argument.pool].view(argument.offset, argument.length)
            found.append(bytes(view))
        return tuple(found)

    def _comparison(self, request: Request, values: _Values) -> Callable[[], bool]:
        """Returns a function that returns True while a request has these values."""
        arguments = [request.inputs[position] for position in self._positions]
        views = [request.pools[each.pool or 0].view(each.offset, each.length) for each in arguments]
        if len(views) == 1:
            ((view,), (value,)) = views, values
            return lambda: view == value
        pairs = tuple(zip(views, values, strict=True))

        def are_same() -> bool:
            # A generator would take twice as long.
            for view, value in pairs:  # noqa: SIM110
                if view != value:
                    return False
            return True

        return are_same

    def _without_values(self, request: Request) -> Request:
        """Returns the request for a variant, which is the same object for the same request."""
        known = self._requests.get(id(request))
        if known is not None and known[0]() is request:
            return known[1]
        made = Request(
            inputs=tuple(request.inputs[n] for n in self._others),
            outputs=request.outputs,
            pools=request.pools,
        )
        requests, key = self._requests, id(request)
        if len(requests) >= _MAX_VARIANTS:
            requests.clear()
        # The memory of a request must not outlive it.
        requests[key] = weakref.ref(request, lambda _: requests.pop(key, None)), made
        return made

    def _found(self, values: _Values) -> tuple[CompiledModel | None, VariantUses | None]:
        """Returns the variant for these values, or what counts their uses until there is one."""
        with self._lock:
            variant = self._variants.get(values)
            if variant is not None:
                self._variants.move_to_end(values)
                return variant, None
            uses = self._uses.get(values)
            if uses is None:
                if len(self._uses) >= _MAX_VARIANTS:
                    self._uses.popitem(last=False)
                uses = self._uses[values] = VariantUses(improving(self._later, values))
            return None, uses

    def _specialize_later(self, values: _Values) -> SubmittedWork | None:
        """Lets the model be compiled for these values in the background; see `Improve`."""
        work = partial(_specialized, weakref.ref(self), self._compile_later, values)
        submitted = worker.submit(work)
        if submitted is not None:
            weakref.finalize(self, submitted.cancel).atexit = False
        return submitted

    def specialize(self, values: _Values, compile_later: CompileLater, cancellation: Cancellation) -> None:
        """Compiles the model for these values; the base remains if not all operations can be."""
        try:
            variant = compile_later(
                with_values(self._model, self._positions, values, self._shapes), cancellation
            )
        except (OutOfMemory, ResourceExhaustedTransient):
            raise  # it is tried again
        except Error as error:
            _LOG.info("not compiled for values of its inputs: %s", error)
            return
        is_partial = isinstance(variant, ReferenceModel) and len(variant.compiled_operations) < len(
            self._model.main.operations
        )
        if is_partial or isinstance(variant, GrowingModel):
            return
        with self._lock:
            self._variants[values] = variant
            uses = self._uses.pop(values, None)
            if uses is not None:
                uses.is_over = True
            while len(self._variants) > _MAX_VARIANTS:
                self._variants.popitem(last=False)


def _specialized(
    prepared: "weakref.ref[ValueVariants]",
    compile_later: CompileLater,
    values: _Values,
    cancellation: Cancellation,
) -> None:
    found = prepared()
    if found is not None:
        found.specialize(values, compile_later, cancellation)
