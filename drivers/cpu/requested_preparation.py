"""Prepares models as the options of a request ask: where, from which cache, for which shapes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Device, ExecuteOptions, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # A warm start does not import these.
    from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
    from neurald.drivers.cpu.caching_preparation import CompileOpen, Kept, Prepare
    from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
    from neurald.drivers.cpu.first_tier.first_tier import Bind, FirstTier
    from neurald.drivers.cpu.in_process import InProcessPreparation
    from neurald.drivers.cpu.open_model import CpuOpenModel
    from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.hal.execution.reference_graph import Step
    from neurald.hal.execution.reference_model import ReferenceModel
    from neurald.hal.operations.machinery.call import Shape

#: A model with all that executions may add to its code.
CompletedModel: TypeAlias = "CpuPreparedModel | ReferenceModel | ValueVariants"
AnyPreparedModel: TypeAlias = "CompletedModel | SpecializingModel"


class RequestedPreparation:
    """Prepares models as the options of a request ask.

    Another process compiles a model if the options have a compiler, otherwise this one. Models with
    open dimensions are compiled by their executions, for any lengths if possible, and for frequent
    ones in the background.

    Args:
        device: the CPU device, which owns the models.
        target: the target to generate code for.
        first_tier: returns the first tier of the device, which few models need.
        options: the options, without a first tier.
        threads: number of threads that run the models.
    """

    def __init__(
        self,
        device: Device,
        target: Target,
        first_tier: "Callable[[], FirstTier]",
        options: PrepareOptions,
        threads: int,
    ) -> None:
        self._device = device
        self._target = target
        self._first_tier = first_tier
        self._options = options
        self._threads = threads
        self._loader = ArtifactLoader(target, threads)

    def prepare(self, model: Model, earlier: object) -> AnyPreparedModel:
        """Prepares a model whose operations the device supports.

        Args:
            model: the model.
            earlier: its first tier; None if it has none.
        """
        from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified

        if not is_specified(model):
            return self._open(model, earlier)
        prepare, _, _ = self._functions
        return self._completed(model, prepare(model, None, None))

    @cached_property
    def _functions(self) -> "tuple[Prepare, CompileOpen, Kept | None]":
        """Prepare a model, compile it for open dimensions, and find it in the cache."""
        options = self._options
        prepare: Prepare
        compile_open: CompileOpen
        if options.compiler is None:
            prepare, compile_open = self._here.prepare, self._here.compile_open
        else:
            from neurald.drivers.cpu.isolated import IsolatedPreparation

            isolated = IsolatedPreparation(
                compiler=options.compiler,
                restore=self._loader.restore,
                restore_open=self._loader.restore_open,
                keeps_artifact=bool(options.cache_key),
                deadline_s=options.deadline_s,
                cancellation=options.cancellation,
            )
            prepare, compile_open = isolated.prepare, isolated.compile_open
        if options.variants is None:
            return prepare, compile_open, None
        from neurald.drivers.cpu.caching_preparation import CachingPreparation

        caching = CachingPreparation(options.variants, prepare, self._loader.restore)
        return caching.prepare, compile_open, caching.kept

    @cached_property
    def _here(self) -> "InProcessPreparation":
        """Prepares models that this process compiles."""
        from neurald.drivers.cpu.in_process import InProcessPreparation

        return InProcessPreparation(
            target=self._target,
            threads=self._threads,
            keeps_artifact=bool(self._options.cache_key),
            shared=self._options.shared,
        )

    def _open(self, model: Model, earlier: object) -> "SpecializingModel":
        """Returns a model whose shapes executions know.

        What prepares it for them is imported by the first one, since it takes longer than all else.
        """
        from neurald.drivers.compiler.frontend.variants.open_variants import OpenVariants
        from neurald.drivers.compiler.frontend.variants.shape_specialization import (
            FirstTierVariants,
            SpecializingModel,
        )
        from neurald.hal.compiling.separate_compiler import SeparateCompiler

        options = self._options

        def prepare(
            model: Model, shapes: "Mapping[int, Shape] | None" = None, limits: ExecuteOptions | None = None
        ) -> "CompletedModel":
            return self._completed(model, self._functions[0](model, shapes, limits), shapes)

        def compile_open(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuOpenModel | None":
            opened = self._functions[1](model, shapes, limits)
            return None if opened is None else completed(opened)

        def completed(opened: "CpuOpenModel") -> "CpuOpenModel":
            opened.run_others_by(partial(self._late, model))
            return opened

        def kept(model: Model, shapes: "Mapping[int, Shape]") -> "CpuPreparedModel | ReferenceModel | None":
            find = self._functions[2]
            return None if find is None else find(model, shapes)

        specialize = prepare
        first_tier: FirstTierVariants | None = None
        # A daemon's processes have a low priority already.
        if options.compiler is None or isinstance(options.compiler, SeparateCompiler):
            background = cache(partial(self._background, model))

            def specialize_later(
                model: Model,
                shapes: "Mapping[int, Shape] | None" = None,
                limits: ExecuteOptions | None = None,
            ) -> "CompletedModel":
                return self._completed(model, background()(model, shapes, limits), shapes)

            specialize = specialize_later
        if isinstance(options.compiler, SeparateCompiler) and not options.compiler.is_awaited:
            # What replaces a first tier has one itself for shapes that are new.
            variants = options.variants
            first_tier = FirstTierVariants(
                bind=self._late_binder() if earlier is None else self._binder(earlier),
                kept=None if variants is None else kept,
                leave=None if variants is None else partial(options.compiler.leave, variants=variants),
            )
        open_models = OpenVariants(
            model=model,
            compile_open=compile_open,
            restore=lambda model, artifact: completed(self._loader.restore_open(model, artifact)),
            variants=options.variants,
        )
        return SpecializingModel(
            model,
            prepare,
            owner=self._device,
            tolerant=False,
            open_models=open_models,
            specialize=specialize,
            first_tier=first_tier,
        )

    def _binder(self, earlier: object) -> "Bind":
        """Returns what binds a model to the first tier; see `FirstTier.taking_over`."""
        return self._first_tier().taking_over(earlier, self._threads, self._options.shared)

    def _late_binder(self) -> "Bind":
        """Returns what binds a model that had no first tier so far.

        It imports the first tier when it is called, since what is kept for shapes needs none.
        """
        binder = cache(partial(self._binder, None))

        def bind(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuPreparedModel | ReferenceModel":
            return binder()(model, shapes, limits)

        return bind

    def _completed(
        self,
        model: Model,
        prepared: "CpuPreparedModel | ReferenceModel",
        shapes: "Mapping[int, Shape] | None" = None,
    ) -> "CompletedModel":
        """Returns a prepared model with all that executions may add to its code.

        Args:
            model: the model.
            prepared: the model, compiled as far as possible.
            shapes: shapes of inputs that the model leaves open, by operand.
        """
        from neurald.drivers.cpu.prepared_model import CpuPreparedModel

        if type(prepared) is CpuPreparedModel:
            # Nothing is to be added, and what adds it takes long to import.
            return prepared
        from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
        from neurald.hal.execution.reference_model import ReferenceModel

        completed = prepared
        if isinstance(prepared, GrowingModel):
            prepared.run_others_by(partial(self._late, model))
        elif isinstance(prepared, ReferenceModel):
            completed = self._late(model, prepared.steps)
        return self._with_value_variants(model, prepared, completed, shapes)

    def _late(self, model: Model, steps: "Sequence[Sequence[Step]] | None" = None) -> "PartlyCompiledModel":
        """Returns a model whose operations on references get code from executions.

        Args:
            model: the model.
            steps: the steps of each of its graphs; None if nothing is compiled.
        """
        from neurald.drivers.cpu.parts.late_segment import PrepareLate, late_steps
        from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel

        graphs = (model.main, *model.referenced)
        given = [range(len(graph.operations)) for graph in graphs] if steps is None else steps
        ways: list[PrepareLate] = [partial(self._bound, first_tier=self._first_tier())]
        if self._options.compiler is None:
            ways.append(self._here.prepare)
        return PartlyCompiledModel(model, late_steps(model, given, ways))

    def _bound(
        self, model: Model, shapes: "Mapping[int, Shape]", *, first_tier: "FirstTier"
    ) -> "CpuPreparedModel | ReferenceModel":
        """Binds the model of an operation to kernels of the first tier."""
        return first_tier.bind(model, self._threads, self._options.shared)

    def _with_value_variants(
        self,
        model: Model,
        prepared: "CpuPreparedModel | ReferenceModel",
        completed: "CpuPreparedModel | ReferenceModel",
        shapes: "Mapping[int, Shape] | None",
    ) -> "CompletedModel":
        """Returns a model with variants if code must know the values of inputs.

        Args:
            model, prepared, shapes: see `_completed`.
            completed: the model that runs for all values.
        """
        from neurald.drivers.cpu.data_dependent.bounded_model import BoundedModel
        from neurald.hal.compiling.separate_compiler import SeparateCompiler

        if type(prepared) is BoundedModel:
            return completed
        # A daemon's processes compile the model that they were given.
        if not (self._options.compiler is None or isinstance(self._options.compiler, SeparateCompiler)):
            return completed
        from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants, value_inputs

        positions = value_inputs(model, prepared, shapes)
        if not positions:
            return completed
        # Variants of other models have the same names in the cache.
        uncached = RequestedPreparation(
            self._device,
            self._target,
            self._first_tier,
            replace(self._options, variants=None),
            self._threads,
        )
        others = {} if shapes is None else shapes

        def compile_later(known: Model, cancellation: Cancellation) -> "CpuPreparedModel | ReferenceModel":
            prepare = uncached._background(known)
            given = {index: others[index] for index in known.main.inputs if index in others}
            return prepare(known, given or None, ExecuteOptions(cancellation=cancellation))

        return ValueVariants(model, completed, positions, compile_later, shapes)

    def _background(self, model: Model) -> "Prepare":
        """Returns what prepares a model for frequent shapes, in a process of low priority."""
        from neurald.drivers.cpu.isolated import IsolatedPreparation
        from neurald.hal.compiling.separate_compiler import SeparateCompiler

        prepare: Prepare = IsolatedPreparation(
            compiler=SeparateCompiler(self._device.name, self._device, model, self._options.shared),
            restore=self._loader.restore,
            restore_open=self._loader.restore_open,
            keeps_artifact=bool(self._options.cache_key),
            deadline_s=None,
            cancellation=None,
        ).prepare
        if self._options.variants is None:
            return prepare
        from neurald.drivers.cpu.caching_preparation import CachingPreparation

        return CachingPreparation(self._options.variants, prepare, self._loader.restore).prepare
