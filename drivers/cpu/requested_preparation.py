"""Prepares models as the options of a request ask: where, from which cache, for which shapes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from neurald.drivers.cpu.loading import ArtifactLoader
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Device, ExecuteOptions, InputShapes, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # A warm start does not import these.
    from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
    from neurald.drivers.cpu.caching_preparation import CompileOpen, Kept, Prepare
    from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
    from neurald.drivers.cpu.first_tier.first_tier import Bind, FirstTier
    from neurald.drivers.cpu.open_model import CpuOpenModel
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.hal.execution.reference_model import ReferenceModel
    from neurald.hal.operations.machinery.call import Shape

AnyPreparedModel: TypeAlias = "CpuPreparedModel | ReferenceModel | SpecializingModel | ValueVariants"


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
        return self._with_value_variants(model, prepare(model, None, None))

    @cached_property
    def _functions(self) -> "tuple[Prepare, CompileOpen, Kept | None]":
        """Prepare a model, compile it for open dimensions, and find it in the cache."""
        options = self._options
        prepare: Prepare
        compile_open: CompileOpen
        if options.compiler is None:
            from neurald.drivers.cpu.in_process import InProcessPreparation

            here = InProcessPreparation(
                target=self._target,
                threads=self._threads,
                keeps_artifact=bool(options.cache_key),
                shared=options.shared,
            )
            prepare, compile_open = here.prepare, here.compile_open
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

    def _open(self, model: Model, earlier: object) -> "SpecializingModel":
        """Returns a model whose shapes executions know.

        What prepares it for them is imported by the first one, since it takes longer than all else.
        """
        from neurald.drivers.compiler.frontend.variants.open_variants import OpenVariants
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
        from neurald.hal.compiling.background import BackgroundCompiler

        options = self._options

        def prepare(
            model: Model, shapes: "Mapping[int, Shape] | None" = None, limits: ExecuteOptions | None = None
        ) -> "CpuPreparedModel | ReferenceModel":
            return self._functions[0](model, shapes, limits)

        def compile_open(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuOpenModel | None":
            return self._functions[1](model, shapes, limits)

        def kept(model: Model, shapes: "Mapping[int, Shape]") -> "CpuPreparedModel | ReferenceModel | None":
            find = self._functions[2]
            return None if find is None else find(model, shapes)

        specialize: Prepare = prepare
        first_tier: Bind | None = None
        leave: Callable[[Sequence[InputShapes]], None] | None = None
        # A daemon's processes have a low priority already.
        if options.compiler is None or isinstance(options.compiler, BackgroundCompiler):
            background = cache(partial(self._background, model))

            def specialize_later(
                model: Model,
                shapes: "Mapping[int, Shape] | None" = None,
                limits: ExecuteOptions | None = None,
            ) -> "CpuPreparedModel | ReferenceModel":
                return background()(model, shapes, limits)

            specialize = specialize_later
        if isinstance(options.compiler, BackgroundCompiler) and not options.compiler.is_awaited:
            # What replaces a first tier has one itself for shapes that are new.
            first_tier = self._first_tier().taking_over(earlier, self._threads, options.shared)
            if options.variants is not None:
                leave = partial(options.compiler.leave, variants=options.variants)
        open_models = OpenVariants(
            model=model,
            compile_open=compile_open,
            restore=self._loader.restore_open,
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
            kept=None if options.variants is None else kept,
            leave=leave,
        )

    def _with_value_variants(
        self, model: Model, prepared: "CpuPreparedModel | ReferenceModel"
    ) -> "CpuPreparedModel | ReferenceModel | ValueVariants":
        """Returns a prepared model, with variants if code must know the values of inputs."""
        from neurald.drivers.cpu.data_dependent.bounded_model import BoundedModel
        from neurald.drivers.cpu.prepared_model import CpuPreparedModel
        from neurald.hal.compiling.background import BackgroundCompiler

        if type(prepared) in (CpuPreparedModel, BoundedModel):
            return prepared
        # A daemon's processes compile the model that they were given.
        if not (self._options.compiler is None or isinstance(self._options.compiler, BackgroundCompiler)):
            return prepared
        from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants, value_inputs

        positions = value_inputs(model, prepared)
        if not positions:
            return prepared
        # Variants of other models have the same names in the cache.
        uncached = RequestedPreparation(
            self._device,
            self._target,
            self._first_tier,
            replace(self._options, variants=None),
            self._threads,
        )

        def compile_later(known: Model, cancellation: Cancellation) -> "CpuPreparedModel | ReferenceModel":
            prepare = uncached._background(known)
            return prepare(known, None, ExecuteOptions(cancellation=cancellation))

        return ValueVariants(model, prepared, positions, compile_later)

    def _background(self, model: Model) -> "Prepare":
        """Returns what prepares a model for frequent shapes, in a process of low priority."""
        from neurald.drivers.cpu.isolated import IsolatedPreparation
        from neurald.hal.compiling.background import BackgroundCompiler

        prepare: Prepare = IsolatedPreparation(
            compiler=BackgroundCompiler(self._device.name, self._device, model, self._options.shared),
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
