"""Compiles models with unspecified dimensions for any lengths, or for those of an execution."""

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import Struct

from neurald.drivers.compiler.frontend.variants.kept_variants import (
    MAX_OPEN,
    KeptVariants,
    OpenVariant,
    PreparedWithOperands,
    Shape,
)
from neurald.drivers.compiler.frontend.variants.open_dimensions import (
    known_shapes,
    open_positions,
    usual_examples,
)
from neurald.drivers.compiler.frontend.variants.variant_uses import VariantUses, improving
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, KernelTime
from neurald.hal.errors import BadData, Error, OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.execution.direct_calls import (
    ArrayFunction,
    ShortExecution,
    array_function,
    short_execution,
)
from neurald.hal.execution.in_process import InProcessModel
from neurald.hal.execution.reusable import ReusableExecution, reusable_execution
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.ports import port_at
from neurald.hal.model.request import Request
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # A start from the cache needs none of these.
    from neurald.drivers.compiler.frontend.variants.open_models import OpenModel, OpenModels
    from neurald.drivers.compiler.frontend.variants.pending_variants import PendingVariants
    from neurald.drivers.compiler.frontend.variants.unfinished_variants import Leave, UnfinishedVariants
    from neurald.hal.execution.background_worker import SubmittedWork

# The functions that compile import the compiler themselves, since a start from the cache needs
# none.

_LOG = logging.getLogger(__name__)
#: Number of times that a model is compiled for any lengths. Each covers a range of them.
_MAX_OPEN_MODELS = 4

#: Prepares a model for input shapes, by operand, within the limits of an execution. Raises BadData
#: if the model does not support the shapes.
PrepareVariant: TypeAlias = Callable[[Model, Mapping[int, Shape], ExecuteOptions], PreparedWithOperands]


class FirstTierVariants(Struct, frozen=True, kw_only=True):
    """Functions that run new shapes at once, while the model is compiled for them.

    Attributes:
        bind: prepares the model at once.
        kept: returns the model for input shapes from the cache; None if there is no cache.
        leave: called when the process exits, with the sets of input shapes that were not compiled
            yet. It must not refer to the prepared model. None to leave nothing.
    """

    bind: PrepareVariant
    kept: Callable[[Model, Mapping[int, Shape]], PreparedWithOperands | None] | None = None
    leave: "Leave | None" = None


class SpecializingModel(InProcessModel):
    """Implements `PreparedModel` with one prepared model per set of input shapes.

    Executions with known shapes never wait for others. For new shapes the model is compiled, unless
    code for any lengths of its open dimensions covers them.

    Args:
        model: the model, with unspecified dimensions.
        prepare: prepares the model for the shapes of an execution.
        owner: the device that owns the model.
        tolerant: see `PreparedModel.tolerates_changing_inputs`.
        open_models: compiles the model for any lengths; None if the device cannot.
        specialize: like `prepare`, called in the background for shapes that are frequent, if the
            code for any lengths covers them; None if the device cannot compile in the background.
        first_tier: what runs shapes until the model is compiled for them; None if executions wait
            for compiled code.
    """

    def __init__(
        self,
        model: Model,
        prepare: PrepareVariant,
        *,
        owner: object,
        tolerant: bool,
        open_models: "OpenModels | None" = None,
        specialize: PrepareVariant | None = None,
        first_tier: FirstTierVariants | None = None,
    ) -> None:
        self._unfinished: UnfinishedVariants | None = None
        self._first_tier = first_tier
        self.owner = owner
        self._model = model
        self._prepare = prepare
        self._open_models = open_models
        self._specialize = specialize
        #: The open models, each with the inputs and dimensions that are open.
        self._opened: list[tuple[OpenModel, set[tuple[int, int]]]] = []
        #: Held only for a moment, never while something is compiled.
        self._lock = forkable_lock()
        self._variants = KeptVariants()
        self._pending: PendingVariants[tuple[Shape | None, ...] | None] | None = None
        #: Counts the uses of code for any lengths by shapes.
        self._open_uses: dict[tuple[Shape | None, ...], VariantUses] = {}
        #: Functions that count do not keep the model alive.
        self._later = weakref.WeakMethod(self._specialize_later)
        #: The latest shapes, if they were used so by a request.
        self._latest_open: tuple[Shape | None, ...] | None = None
        self.tolerates_changing_inputs = tolerant

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """Returns the declared operand of an input or output.

        Raises:
            BadData: the index is out of range.
        """
        main = self._model.main
        indexes = main.outputs if is_output else main.inputs
        return main.operands[port_at(indexes, index, is_output=is_output)]

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`.

        The first execution with these shapes may compile the model.
        """
        shapes = self._shapes(request)
        # Without a lock, since a variant that is missed is only not used this time. To make one
        # takes longer than several executions of a small model.
        if shapes not in self._variants:
            for opened, _ in self._opened:
                result = opened.execute(shapes, request, options)
                if result is not None:
                    self._latest_open = shapes
                    self._count_open(shapes, options.deadline_s)
                    return result
        self._latest_open = None
        return self._variant(shapes, options).execute(request, options)

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        shapes = self._shapes(request)
        variant, uses = self._repeated(shapes)
        run = reusable_execution(variant, request)
        if run is None or uses is None:
            return run
        current: tuple[ReusableExecution, VariantUses | None] = run, uses

        def counted(cancellation: Cancellation) -> ExecutionResult | None:
            nonlocal current
            run, uses = current
            if uses is not None and uses.is_over:
                variant, uses = self._repeated(shapes)
                current = run, uses = reusable_execution(variant, request) or run, uses
            if uses is not None:
                uses.add()
                uses.give_way()
            return run(cancellation)

        return counted

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """See `CallsDirectly.create_short_execution`."""
        variant, uses = self._repeated(self._shapes(request))
        run = short_execution(variant, request)
        if run is None or uses is None:
            return run
        return cast("ShortExecution", uses.counted_call(run))

    def output_shapes(self, shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
        """See `InfersOutputShapes.output_shapes`."""
        known = self._with_variables(shapes)
        for opened, _ in self._opened:
            found = opened.output_shapes(known)
            if found is not None:
                return found
        return None

    def _with_variables(self, shapes: Sequence[Shape | None]) -> tuple[Shape | None, ...]:
        """Returns the shapes of all inputs; those of variables, the last ones, are declared."""
        main = self._model.main
        return (*shapes, *[main.operands[index].dimensions for index in main.inputs[len(shapes) :]])

    def create_array_function(
        self, shapes: Sequence[Shape], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`."""
        variant, uses = self._repeated(self._with_variables(shapes))
        function = array_function(variant, shapes, variables)
        if function is None or uses is None:
            return function
        return cast("ArrayFunction", uses.counted_call(function))

    def create_open_function(self) -> ArrayFunction | None:
        """See `RunsAnyShapes.create_open_function`."""
        return self._run_open if self._opened else None

    def _run_open(self, *arrays: Array) -> list[Array] | None:
        """Runs the model on arrays by code for any lengths; see `create_open_function`."""
        try:
            shapes = tuple([array.shape for array in arrays])
        except AttributeError:
            return None
        # Without a lock, since a variant that is missed is only not used this time.
        if self._variants.has_own_code(shapes):
            return None
        for opened, _ in self._opened:
            found = opened.run_arrays(shapes, arrays)
            if found is not None:
                self._count_open(shapes)
                return found
        return None

    def _count_open(self, shapes: tuple[Shape | None, ...], deadline_s: float | None = None) -> None:
        """Counts a use of code for any lengths, and has the model compiled for frequent shapes."""
        uses = self._open_uses.get(shapes)
        # While their variant is kept, uses that are over tell that no faster code follows.
        if uses is None or (uses.is_over and shapes not in self._variants):
            uses = self._uses_of_open(shapes)
        if uses is not None:
            uses.add()
            uses.give_way(deadline_s)

    def _repeated(
        self, shapes: tuple[Shape | None, ...]
    ) -> "tuple[PreparedWithOperands | None, VariantUses | None]":
        """Returns the variant for what repeats executions and keeps it, and what counts its uses.

        Returns None if something has to be compiled first.
        """
        with self._lock:
            variant, uses = self._variants.get(shapes)
        return self._at_once(shapes) if variant is None else (variant, uses)

    def _at_once(
        self, shapes: tuple[Shape | None, ...]
    ) -> "tuple[PreparedWithOperands | None, VariantUses | None]":
        """Returns the variant for new shapes, and what counts its uses, if nothing is compiled."""
        opened = self._opened_for(shapes)
        if opened is None:
            return None, None
        uses = self._uses_of_open(shapes)
        with self._lock:
            if shapes in self._variants:
                return self._variants.get(shapes)
            self._variants.keep(shapes, opened, uses)
        return opened.prepared, uses

    def _specialize_later(self, shapes: tuple[Shape | None, ...]) -> "SubmittedWork | None":
        """Lets the variant for some shapes be compiled in the background; see `Improve`."""
        if self._specialize is None:
            return None
        return self._submit(partial(_specialized, weakref.ref(self), self._model, self._specialize, shapes))

    def _compile_later(self, shapes: tuple[Shape | None, ...]) -> "SubmittedWork | None":
        """Lets a variant of the first tier be compiled in the background; see `Improve`."""
        return self._submit(partial(_compiled, weakref.ref(self), shapes))

    def _submit(self, work: Callable[[Cancellation], None]) -> "SubmittedWork | None":
        """Does work in the background, unless the model is freed before."""
        from neurald.hal.execution.background_worker import worker

        submitted = worker.submit(work)
        if submitted is not None:
            weakref.finalize(self, submitted.cancel).atexit = False
        return submitted

    def _shapes(self, request: Request) -> tuple[Shape | None, ...]:
        main = self._model.main
        return tuple(
            main.operands[index].dimensions if argument.dimensions is None else argument.dimensions
            for index, argument in zip(main.inputs, request.inputs, strict=True)
        )

    def _variant(self, shapes: tuple[Shape | None, ...], options: ExecuteOptions) -> PreparedWithOperands:
        while True:
            with self._lock:
                known, uses = self._variants.use(shapes)
            if known is not None:
                if uses is not None:
                    uses.give_way(options.deadline_s)
                return known
            pending = self._preparations()
            if not pending.begin(shapes, options):
                continue
            try:
                variant, uses = self._prepared(shapes, options)
                with self._lock:
                    self._variants.keep(shapes, variant, uses)
                return variant.prepared if isinstance(variant, OpenVariant) else variant
            finally:
                pending.end(shapes)

    def _preparations(self) -> "PendingVariants[tuple[Shape | None, ...] | None]":
        """Returns what executions prepare now: shapes, or None for code for any lengths."""
        from neurald.drivers.compiler.frontend.variants.pending_variants import PendingVariants

        with self._lock:
            if self._pending is None:
                self._pending = PendingVariants()
            return self._pending

    def _prepared(
        self, shapes: tuple[Shape | None, ...], options: ExecuteOptions
    ) -> "tuple[PreparedWithOperands | OpenVariant, VariantUses | None]":
        """Returns a new variant, and what counts its uses if a faster one may follow."""
        known, first_tier = known_shapes(self._model, shapes), self._first_tier
        try:
            if first_tier is None:
                return self._compiled(shapes, known, options)
            # Looking into the cache takes longer than a small model runs. Code for frequent shapes
            # is looked up there later.
            opened = self._opened_for(shapes)
            if opened is None and first_tier.kept is not None:
                kept = first_tier.kept(self._model, known)
                if kept is not None:
                    return kept, None
            opened = opened or self._kept_open_for(shapes, known)
            if opened is not None:
                return opened, self._uses_of_open(shapes)
            variant = first_tier.bind(self._model, known, options)
            if first_tier.leave is not None:
                self._note_unfinished(shapes, known, first_tier.leave)
        except BadData as error:
            raise OpFailed(f"inputs of shapes {[list(s or ()) for s in shapes]}: {error}") from None
        compile_later = weakref.WeakMethod(self._compile_later)
        return variant, VariantUses(improving(compile_later, shapes), self._compile_later(shapes))

    def _note_unfinished(
        self, shapes: tuple[Shape | None, ...], known: Mapping[int, Shape], leave: "Leave"
    ) -> None:
        """Notes that a variant is not compiled yet."""
        from neurald.drivers.compiler.frontend.variants.unfinished_variants import UnfinishedVariants

        with self._lock:
            if self._unfinished is None:
                size_bytes = sum(pool.size for pool in self._model.pools)
                self._unfinished = UnfinishedVariants(leave, size_bytes)
            self._unfinished.add(shapes, known)

    def give_away(self, shapes: Mapping[int, Shape]) -> PreparedWithOperands | None:
        """Returns the variant for input shapes, by operand, and drops it; None if there is none."""
        with self._lock:
            return self._variants.drop(tuple(shapes.get(index) for index in self._model.main.inputs))

    def prepare_for(self, shapes: Mapping[int, Shape]) -> None:
        """See `neurald.hal.compiling.contract.PreparesForShapes`."""
        self._variant(tuple(shapes.get(index) for index in self._model.main.inputs), ExecuteOptions())

    def _compiled(
        self, shapes: tuple[Shape | None, ...], known: Mapping[int, Shape], options: ExecuteOptions
    ) -> "tuple[PreparedWithOperands | OpenVariant, VariantUses | None]":
        """Returns a compiled variant, and what counts its uses if a faster one may follow."""
        variant = self._from_open(shapes, known, options)
        if variant is not None:
            return variant, self._uses_of_open(shapes)
        return self._prepare(self._model, known, options), None

    def _uses_of_open(self, shapes: tuple[Shape | None, ...]) -> "VariantUses | None":
        """Returns what counts the uses of a variant from code for any lengths.

        Executions and functions with the same shapes share it, so that the model is compiled for
        them once.
        """
        if self._specialize is None:
            return None
        counts = self._open_uses
        uses = counts.get(shapes)
        if uses is None or uses.is_over:
            if len(counts) >= MAX_OPEN:
                counts.clear()
            uses = counts[shapes] = VariantUses(improving(self._later, shapes))
        return uses

    def compile_variant(self, shapes: tuple[Shape | None, ...], options: ExecuteOptions) -> None:
        """Compiles the model for shapes whose variant is of the first tier, and replaces it."""
        variant, uses = self._compiled(shapes, known_shapes(self._model, shapes), options)
        with self._lock:
            if self._unfinished is not None:
                self._unfinished.remove(shapes)
            if shapes in self._variants:
                self._variants.keep(shapes, variant, uses)

    def _opened_for(self, shapes: tuple[Shape | None, ...]) -> OpenVariant | None:
        """Returns the model for these shapes from code for any lengths that is there."""
        for opened, _ in self._opened:
            variant = opened.for_shapes(shapes)
            if variant is not None:
                return variant
        return None

    def replace_variant(self, shapes: tuple[Shape | None, ...], variant: PreparedWithOperands | None) -> None:
        """Replaces the variant for some shapes by a faster one; if there is none, it remains."""
        with self._lock:
            if variant is None:
                self._variants.end_uses(shapes)
            else:
                self._variants.keep(shapes, variant)
                # Once it is dropped, it may be compiled again.
                self._open_uses.pop(shapes, None)

    def _kept_open_for(
        self, shapes: tuple[Shape | None, ...], known: Mapping[int, Shape]
    ) -> OpenVariant | None:
        """Returns the model for these shapes from code for any lengths in the cache."""
        positions = self._positions(known)
        while positions and len(known) == len(shapes) and len(self._opened) < _MAX_OPEN_MODELS:
            with self._lock:
                is_pending = self._pending is not None and None in self._pending
                models, count = None if is_pending else self._open_models, len(self._opened)
            found = None if models is None else models.kept(count)
            if found is None:
                return None
            with self._lock:
                if count == len(self._opened):
                    self._opened.append((found, positions))
            variant = found.for_shapes(shapes)
            if variant is not None:
                return variant
        return None

    def _positions(self, known: Mapping[int, Shape]) -> set[tuple[int, int]]:
        """Returns the inputs and dimensions that are open in code for any lengths."""
        return {
            (index, position)
            for index, shape in known.items()
            for position in open_positions(self._model.main.operands[index], shape)
        }

    def _from_open(
        self, shapes: tuple[Shape | None, ...], known: Mapping[int, Shape], options: ExecuteOptions
    ) -> OpenVariant | None:
        """Returns the model for these shapes from code for any lengths.

        Compiles such code if there is none for these lengths yet. Returns None if there cannot be.
        """
        positions = self._positions(known)
        while True:
            count = len(self._opened)
            variant = self._opened_for(shapes)
            if variant is not None:
                return variant
            open_models = self._open_models
            if open_models is None or count >= _MAX_OPEN_MODELS or len(known) < len(shapes) or not positions:
                return None
            pending = self._preparations()
            if not pending.begin(None, options):
                continue
            try:
                if count < len(self._opened):
                    continue
                # The code for an example of usual lengths is valid for most others.
                is_known = any(other == positions for _, other in self._opened)
                examples = (known,) if is_known else usual_examples(self._model, known)
                found = open_models.get(count, examples, options)
                if found is None:
                    self._open_models = None
                    return None
                self._opened.append((found, positions))
            finally:
                pending.end(None)

    def artifact(self) -> Artifact | None:
        """Returns None, because the input shapes are not known in advance."""
        return None

    def profile(self) -> Sequence[KernelTime]:
        """Returns the profile for the latest input shapes; empty before the first execution."""
        latest = self._latest_open
        if latest is not None:
            return self._variant(latest, ExecuteOptions()).profile()
        with self._lock:
            last = self._variants.latest()
        return () if last is None else last.profile()


def _specialized(
    prepared: "weakref.ref[SpecializingModel]",
    model: Model,
    specialize: PrepareVariant,
    shapes: tuple[Shape | None, ...],
    cancellation: Cancellation,
) -> None:
    """Compiles a model for shapes, and replaces its variant.

    Does not keep the prepared model alive.
    """
    variant: PreparedWithOperands | None = None
    is_known = True
    try:
        variant = specialize(model, known_shapes(model, shapes), ExecuteOptions(cancellation=cancellation))
    except (OutOfMemory, ResourceExhaustedTransient):
        is_known = False
        raise
    finally:
        found = prepared()
        if found is not None and is_known:
            found.replace_variant(shapes, variant)


def _compiled(
    prepared: "weakref.ref[SpecializingModel]", shapes: tuple[Shape | None, ...], cancellation: Cancellation
) -> None:
    """Compiles a variant that is of the first tier, which stays if that fails."""
    found = prepared()
    if found is None:
        return
    try:
        found.compile_variant(shapes, ExecuteOptions(cancellation=cancellation))
    except (OutOfMemory, ResourceExhaustedTransient):
        raise  # it is tried again
    except Error as error:
        _LOG.info("not compiled for shapes %s: %s", shapes, error)
