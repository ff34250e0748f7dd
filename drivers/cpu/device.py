"""CPU device: the fallback for all others, and the baseline of performance figures."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

import llvmlite

from neurald._version import __version__
from neurald.drivers.cpu.target.target import TARGET_VARIABLE, THREADS_VARIABLE, Target, host_target
from neurald.drivers.settings import Settings
from neurald.hal.cache.sources import sources_digest
from neurald.hal.device import (
    Artifact,
    BufferDescription,
    CacheFilesNeeded,
    Capabilities,
    CompileResult,
    ExecuteOptions,
    InputShapes,
    OpenDevice,
    Performance,
    PrepareOptions,
    Variants,
    Verdict,
)
from neurald.hal.errors import BadData, MissedDeadlineTransient, OutOfMemory
from neurald.hal.lazy_numpy import numpy_version
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import first_few
from neurald.hal.model.types import DeviceType, FeatureLevel, OperandType
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # A warm start does not import these.
    from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
    from neurald.drivers.cpu.artifact import ArtifactContents
    from neurald.drivers.cpu.caching_preparation import CompileOpen, Kept, Prepare
    from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
    from neurald.drivers.cpu.first_tier.library import FirstTierLibrary
    from neurald.drivers.cpu.native.native_model import NativeModel
    from neurald.drivers.cpu.open_model import CpuOpenModel, OpenArtifact
    from neurald.drivers.cpu.preparation import Preparation
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.hal.cache.store import CacheLocation
    from neurald.hal.compiling.job import Keep
    from neurald.hal.execution.reference_model import ReferenceModel
    from neurald.hal.operations.machinery.call import Shape

AnyPreparedModel: TypeAlias = "CpuPreparedModel | ReferenceModel | SpecializingModel | ValueVariants"

#: Environment variable that disables compilation: "off" runs everything on references.
COMPILER_VARIABLE = "NEURALD_CPU_COMPILER"
#: Folders whose sources affect compiled code. References in `hal` fold constants.
_SOURCES = ("drivers/compiler", "drivers/cpu", "hal")
#: Variables without effect on compiled code, or whose effect the version covers otherwise.
_IRRELEVANT_VARIABLES = frozenset({COMPILER_VARIABLE, TARGET_VARIABLE, THREADS_VARIABLE})

#: Performance figures are relative to the CPU device.
_UNIT = Performance(exec_time=1.0, power_usage=1.0)
_CAPABILITIES = Capabilities(
    operand_performance=MappingProxyType(dict.fromkeys(OperandType, _UNIT)),
    relaxed_float32_scalar=_UNIT,
    relaxed_float32_tensor=_UNIT,
    if_performance=_UNIT,
    while_performance=_UNIT,
)


class CpuDevice(OpenDevice):
    """Implements `neurald.hal.device.Device`.

    Operations with a lowering are compiled; all others run on NumPy references.

    Args:
        compiles: False runs everything on references.
        settings: the driver's settings; None takes those of this process.
    """

    name = "cpu"
    type = DeviceType.CPU
    is_remote = False
    feature_level = FeatureLevel.LEVEL_8
    extensions = ("neurald.tflite",)
    #: See `neurald.hal.compiling.contract.SparesImports`.
    spares_imports = True

    def __init__(self, *, compiles: bool = True, settings: Settings | None = None) -> None:
        self.compiles = compiles
        self._settings = process_settings() if settings is None else settings

    @cached_property
    def _target(self) -> Target:
        return host_target(self._settings)

    def _threads(self, options: PrepareOptions) -> int:
        # A cold start imports this beside the process that it has started to compile.
        from neurald.drivers.cpu.native.thread_pool import thread_count

        return thread_count(options.threads, self._settings)

    @property
    def cache_files_needed(self) -> CacheFilesNeeded:
        """See `Device.cache_files_needed`.

        There is a file with the executable and its code, and one with the constants.
        """
        return CacheFilesNeeded(model=1, data=1) if self.compiles else CacheFilesNeeded()

    @property
    def version(self) -> str:
        """See `Device.version`.

        The version covers everything that affects compiled code besides the model and the options.
        llvmlite's version determines that of LLVM.
        """
        return self._compiler_version if self.compiles else self._reference_version

    @cached_property
    def _reference_version(self) -> str:
        return f"neurald {__version__}, numpy {numpy_version()}"

    @cached_property
    def _compiler_version(self) -> str:
        parts = [
            self._reference_version,
            f"sources {sources_digest(*_SOURCES)}",
            f"llvmlite {llvmlite.__version__}",
            self._target.name,
            self._settings.description(without=_IRRELEVANT_VARIABLES),
        ]
        return ", ".join(filter(None, parts))

    @property
    def executions_at_once(self) -> int:
        """See `RunsConcurrently`: one execution per core."""
        return len(os.sched_getaffinity(0))

    def capabilities(self) -> Capabilities:
        """Returns 1.0 for everything, by definition."""
        return _CAPABILITIES

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        """Returns ok for operations that have a reference.

        Control flow is refused if its graphs contain operations of a vendor extension.
        """
        # A start from the cache does not ask.
        from neurald.hal.execution.reference_support import supported_by_references

        return supported_by_references(model, self)

    def prepare_model(self, model: Model, options: PrepareOptions) -> AnyPreparedModel:
        """See `Device.prepare_model`.

        Models with unspecified dimensions are compiled by executions.
        """
        options.require_time()
        refused = [verdict.reason for verdict in self.supported_operations(model) if not verdict.ok]
        if refused:
            raise BadData(f"cpu: {first_few(refused)}")
        if not self.compiles:
            from neurald.hal.execution.reference_model import ReferenceModel

            return ReferenceModel(model)
        prepared = self._prepared(model, options)
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlineTransient("the deadline passed while the model was prepared")
        return prepared

    @cached_property
    def first_tier_library(self) -> "FirstTierLibrary":
        """The kernels of the first tier."""
        from neurald.drivers.cpu.first_tier.library import FirstTierLibrary

        # Without the path of an interpreter, as in an application that embeds one, no process can
        # start.
        if not sys.executable:
            return FirstTierLibrary(self._target)
        return FirstTierLibrary(self._target, self._compile_library_apart, self._leave_library)

    def _leave_library(self, keep: "Keep", location: "CacheLocation") -> None:
        from neurald.hal.compiling.background import leave_to_process

        leave_to_process(self.name, self, None, keep, location)

    def _compile_library_apart(self, cancellation: Cancellation) -> Artifact:
        from neurald.hal.compiling.background import compile_common

        return compile_common(self.name, self, cancellation)

    def compile_common(self) -> Artifact:
        """See `CompilesCommonCode.compile_common`: compiles the kernels of the first tier."""
        from neurald.drivers.cpu.first_tier.library import compile_library

        return compile_library(self._target)

    def prepare_first_tier(
        self, model: Model, options: PrepareOptions
    ) -> "CpuPreparedModel | ReferenceModel | SpecializingModel | None":
        """See `HasFirstTier.prepare_first_tier`.

        Models with unspecified dimensions are bound by executions, for each set of input shapes.
        Until the library is compiled, everything runs on references.
        """
        options.require_time()
        if not self.compiles or not model.main.operations:
            return None
        threads = self._threads(options)
        if all(model.main.operands[index].is_fully_specified for index in model.main.inputs):
            return self._first_tier(model, threads, options.shared)
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel

        self.first_tier_library.code(options.shared)
        prepare = partial(self._first_tier_for, threads=threads, shared=options.shared)
        return SpecializingModel(model, prepare, owner=self, tolerant=False)

    def _first_tier_for(
        self,
        model: Model,
        shapes: "Mapping[int, Shape]",
        limits: ExecuteOptions,
        *,
        threads: int,
        shared: Variants | None,
    ) -> "CpuPreparedModel | ReferenceModel":
        """Binds a model for shapes of its inputs."""
        from neurald.drivers.compiler.frontend.variants.open_dimensions import with_shapes

        try:
            known = with_shapes(model, shapes)
        except BadData:
            # References know what executions omit, and report what is wrong.
            from neurald.hal.execution.reference_model import ReferenceModel

            return ReferenceModel(model)
        return self._first_tier(known, threads, shared)

    def _later_first_tier(
        self, earlier: object, shared: Variants | None, threads: int
    ) -> "Callable[[Model, Mapping[int, Shape], ExecuteOptions], CpuPreparedModel | ReferenceModel]":
        """Returns what binds a model for shapes, and takes over what was bound for the first."""
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel

        def bind(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuPreparedModel | ReferenceModel":
            nonlocal earlier
            before, earlier = earlier, None
            bound = before.give_away(shapes) if isinstance(before, SpecializingModel) else None
            if bound is not None:
                return cast("CpuPreparedModel | ReferenceModel", bound)
            return self._first_tier_for(model, shapes, limits, threads=threads, shared=shared)

        return bind

    def _first_tier(
        self, model: Model, threads: int, shared: Variants | None
    ) -> "CpuPreparedModel | ReferenceModel":
        """Binds a model whose dimensions are specified."""
        code = self.first_tier_library.code(shared)
        if code is None:
            from neurald.hal.execution.reference_model import ReferenceModel

            return ReferenceModel(model)
        from neurald.drivers.cpu.first_tier.preparation import prepare
        from neurald.hal.process.memory.gc_pause import paused_gc

        with paused_gc():
            return prepare(model, self._target, code, self.first_tier_library.team(threads))

    def _prepared(self, model: Model, options: PrepareOptions) -> AnyPreparedModel:
        from neurald.drivers.compiler.frontend.variants.open_dimensions import is_specified

        threads = self._threads(options)
        if not is_specified(model):
            return self._open(model, options, threads)
        prepare, _, _ = self._functions(options, threads)
        return self._with_value_variants(model, prepare(model, None, None), options, threads)

    def _functions(self, options: PrepareOptions, threads: int) -> "tuple[Prepare, CompileOpen, Kept | None]":
        """Returns what prepares a model for open dimensions, and finds it in the cache."""
        prepare: Prepare
        compile_open: CompileOpen
        if options.compiler is None:
            shared = options.shared
            keeps = bool(options.cache_key)
            prepare = partial(self._compiled, threads=threads, keeps_artifact=keeps, shared=shared)
            compile_open = partial(self._compiled_open, threads=threads, shared=shared)
        else:
            from neurald.drivers.cpu.isolated import IsolatedPreparation

            isolated = IsolatedPreparation(
                compiler=options.compiler,
                restore=partial(self._restored, threads=threads),
                restore_open=partial(self._restored_open, threads=threads),
                keeps_artifact=bool(options.cache_key),
                deadline_s=options.deadline_s,
                cancellation=options.cancellation,
            )
            prepare, compile_open = isolated.prepare, isolated.compile_open
        if options.variants is None:
            return prepare, compile_open, None
        from neurald.drivers.cpu.caching_preparation import CachingPreparation

        caching = CachingPreparation(options.variants, prepare, partial(self._restored, threads=threads))
        return caching.prepare, compile_open, caching.kept

    def _open(self, model: Model, options: PrepareOptions, threads: int) -> "SpecializingModel":
        """Returns a model whose shapes executions know.

        What prepares it for them is imported by the first one, since it takes longer than all else.
        """
        from neurald.drivers.compiler.frontend.variants.open_variants import OpenVariants
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
        from neurald.hal.compiling.background import BackgroundCompiler

        # What lives as long as the model must not keep the first tier.
        earlier, options = options.first_tier, replace(options, first_tier=None)
        functions = cache(partial(self._functions, options, threads))

        def prepare(
            model: Model, shapes: "Mapping[int, Shape] | None" = None, limits: ExecuteOptions | None = None
        ) -> "CpuPreparedModel | ReferenceModel":
            return functions()[0](model, shapes, limits)

        def compile_open(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuOpenModel | None":
            return functions()[1](model, shapes, limits)

        def kept(model: Model, shapes: "Mapping[int, Shape]") -> "CpuPreparedModel | ReferenceModel | None":
            find = functions()[2]
            return None if find is None else find(model, shapes)

        specialize: Prepare = prepare
        first_tier: (
            Callable[[Model, Mapping[int, Shape], ExecuteOptions], CpuPreparedModel | ReferenceModel] | None
        ) = None
        leave: Callable[[Sequence[InputShapes]], None] | None = None
        # A daemon's processes have a low priority already.
        if options.compiler is None or isinstance(options.compiler, BackgroundCompiler):
            background = cache(partial(self._background, model, options, threads))

            def specialize_later(
                model: Model,
                shapes: "Mapping[int, Shape] | None" = None,
                limits: ExecuteOptions | None = None,
            ) -> "CpuPreparedModel | ReferenceModel":
                return background()(model, shapes, limits)

            specialize = specialize_later
        if isinstance(options.compiler, BackgroundCompiler) and not options.compiler.is_awaited:
            # What replaces a first tier has one itself for shapes that are new.
            first_tier = self._later_first_tier(earlier, options.shared, threads)
            if options.variants is not None:
                leave = partial(options.compiler.leave, variants=options.variants)
        open_models = OpenVariants(
            model=model,
            compile_open=compile_open,
            restore=partial(self._restored_open, threads=threads),
            variants=options.variants,
        )
        return SpecializingModel(
            model,
            prepare,
            owner=self,
            tolerant=False,
            open_models=open_models,
            specialize=specialize,
            first_tier=first_tier,
            kept=None if options.variants is None else kept,
            leave=leave,
        )

    def _with_value_variants(
        self,
        model: Model,
        prepared: "CpuPreparedModel | ReferenceModel",
        options: PrepareOptions,
        threads: int,
    ) -> "CpuPreparedModel | ReferenceModel | ValueVariants":
        """Returns a prepared model, with variants if code must know the values of inputs."""
        from neurald.drivers.cpu.data_dependent.bounded_model import BoundedModel
        from neurald.drivers.cpu.prepared_model import CpuPreparedModel
        from neurald.hal.compiling.background import BackgroundCompiler

        if type(prepared) in (CpuPreparedModel, BoundedModel):
            return prepared
        # A daemon's processes compile the model that they were given.
        if not (options.compiler is None or isinstance(options.compiler, BackgroundCompiler)):
            return prepared
        from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants, value_inputs

        positions = value_inputs(model, prepared)
        if not positions:
            return prepared
        # Variants of other models have the same names in the cache.
        uncached = replace(options, variants=None)

        def compile_later(known: Model, cancellation: Cancellation) -> "CpuPreparedModel | ReferenceModel":
            prepare = self._background(known, uncached, threads)
            return prepare(known, None, ExecuteOptions(cancellation=cancellation))

        return ValueVariants(model, prepared, positions, compile_later)

    def _background(self, model: Model, options: PrepareOptions, threads: int) -> "Prepare":
        """Returns what prepares a model for frequent shapes, in a process of low priority."""
        from neurald.drivers.cpu.isolated import IsolatedPreparation
        from neurald.hal.compiling.background import BackgroundCompiler

        prepare: Prepare = IsolatedPreparation(
            compiler=BackgroundCompiler(self.name, self, model, options.shared),
            restore=partial(self._restored, threads=threads),
            restore_open=partial(self._restored_open, threads=threads),
            keeps_artifact=bool(options.cache_key),
            deadline_s=None,
            cancellation=None,
        ).prepare
        if options.variants is None:
            return prepare
        from neurald.drivers.cpu.caching_preparation import CachingPreparation

        return CachingPreparation(options.variants, prepare, partial(self._restored, threads=threads)).prepare

    def _compiled(
        self,
        model: Model,
        shapes: "Mapping[int, Shape] | None",
        limits: ExecuteOptions | None = None,
        *,
        threads: int,
        keeps_artifact: bool,
        shared: Variants | None,
    ) -> "CpuPreparedModel | ReferenceModel":
        with self._preparation(model, threads, shared, keeps_artifact=keeps_artifact) as preparation:
            return preparation.prepare(model, shapes)

    def _compiled_open(
        self,
        model: Model,
        shapes: "Mapping[int, Shape]",
        limits: ExecuteOptions | None = None,
        *,
        threads: int,
        shared: Variants | None,
    ) -> "CpuOpenModel | None":
        with self._preparation(model, threads, shared, keeps_artifact=True) as preparation:
            return preparation.open(model, shapes)

    @contextmanager
    def _preparation(
        self, model: Model, threads: int, shared: Variants | None, *, keeps_artifact: bool
    ) -> "Iterator[Preparation]":
        from neurald.drivers.cpu.native.objects.compile_helper import start_ahead
        from neurald.hal.process.memory.gc_pause import paused_gc

        helper = start_ahead(self._target, len(model.main.operations))
        try:
            with paused_gc():
                # The compiler is slow to import and not needed for a warm start. The helper starts
                # meanwhile.
                from neurald.drivers.cpu.native.objects.kernel_store import KernelStore
                from neurald.drivers.cpu.preparation import Preparation

                yield Preparation(
                    self._target,
                    threads,
                    keeps_artifact=keeps_artifact,
                    helper=helper,
                    store=None if shared is None else KernelStore(shared, self._target),
                )
        except MemoryError:
            raise OutOfMemory(f"{self.name}: there is not enough memory to compile the model") from None
        finally:
            if helper is not None:
                helper.close()

    def get_ready_to_compile(self, *, lasts: bool) -> None:
        """See `CompilesApart.get_ready_to_compile`.

        Imports the compiler. If the process lasts, it also compiles the step program, which
        otherwise is compiled beside the kernels of a model.
        """
        if self.compiles:
            import neurald.drivers.cpu.isolated
            import neurald.drivers.cpu.native.objects.elf_linker
            import neurald.drivers.cpu.native.objects.kernel_store
            import neurald.drivers.cpu.preparation  # noqa: F401
            from neurald.drivers.cpu.native.objects.llvm import TargetMachine, leave_out_passes

            leave_out_passes()
            from neurald.drivers.cpu.native.thread_pool import process

            if lasts:
                process.step_program(self._target)
            else:
                TargetMachine.of(self._target)

    def compile(
        self, model: Model, shapes: InputShapes | None, options: PrepareOptions, *, is_open: bool = False
    ) -> CompileResult:
        """See `CompilesApart.compile`."""
        from neurald.drivers.cpu.isolated import to_compiled, to_compiled_open

        if is_open:
            return to_compiled_open(
                self._compiled_open(model, shapes or {}, threads=1, shared=options.shared)
            )
        return to_compiled(
            self._compiled(model, shapes, threads=1, keeps_artifact=True, shared=options.shared)
        )

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> "CpuPreparedModel":
        """See `Device.prepare_model_from_cache`."""
        if not self.compiles:
            raise BadData(f"{self.name} does not compile, so it cannot load an artifact")
        from neurald.drivers.cpu.data_dependent.bounded_model import whole_model

        return whole_model(
            self._restored(artifact, self._threads(options)),
            keeps_artifact=bool(options.cache_key),
            artifact=artifact,
        )

    def _restored(self, artifact: Artifact, threads: int) -> "NativeModel":
        """Restores a compiled model from its artifact.

        Raises:
            BadData: the artifact is not from this device.
        """
        from neurald.drivers.cpu.artifact import read_artifact

        return self._loaded(read_artifact(artifact), threads)

    def _restored_open(self, model: Model, artifact: Artifact, threads: int) -> "CpuOpenModel":
        """Restores a model for any lengths of its open dimensions; see `_restored`."""
        from neurald.drivers.cpu.open_model import CpuOpenModel, read_open_artifact

        read = read_open_artifact(artifact)
        return CpuOpenModel(model, self._loaded(read, threads), read.opened)

    def _loaded(self, read: "ArtifactContents | OpenArtifact", threads: int) -> "NativeModel":
        """Loads the code of an artifact.

        Raises:
            BadData: it is for another target, or cannot be loaded.
        """
        from neurald.drivers.cpu.native.native_model import NativeModel
        from neurald.drivers.cpu.native.objects.llvm import CompilationFailed
        from neurald.drivers.cpu.native.thread_pool import Team, process

        if read.executable.target != self._target.name:
            raise BadData(
                f"the code is for {read.executable.target}, but this device compiles for {self._target.name}"
            )
        try:
            program = process.step_program(self._target, read.step_program)
            team = Team(program, threads)
            opened = read.opened
            if opened is not None and not opened.sizings:
                opened = None
            return NativeModel(read.executable, read.codes, read.constants, team, opened=opened)
        except CompilationFailed as error:
            raise BadData(f"the code of these cache files cannot be loaded: {error}") from None

    def allocate(self, description: BufferDescription) -> Memory:
        """See `Device.allocate`. Allocates host memory, so the size must be known."""
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
        from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
        from neurald.drivers.cpu.prepared_model import CpuPreparedModel
        from neurald.hal.buffers.tracked_buffer import host_memory_for
        from neurald.hal.execution.reference_model import ReferenceModel

        uses: list[tuple[str, Operand]] = []
        for roles, is_output in ((description.input_roles, False), (description.output_roles, True)):
            for role in roles:
                prepared = role.prepared_model
                if not isinstance(prepared, CpuPreparedModel | ReferenceModel | ValueVariants) and not (
                    isinstance(prepared, SpecializingModel) and isinstance(prepared.owner, CpuDevice)
                ):
                    raise BadData(f"cpu: {type(prepared).__name__} was not prepared by this device")
                uses.append((f"role {len(uses)}", prepared.operand(role.index, is_output=is_output)))
        return host_memory_for("cpu", uses, description.dimensions)


def process_settings() -> Settings:
    """Returns the environment variables of this process that affect the CPU driver."""
    return Settings("NEURALD_CPU_", THREADS_VARIABLE)


def create() -> CpuDevice:
    """Creates the CPU device; called by `neurald.hal.registry`.

    Raises:
        BadData: NEURALD_CPU_COMPILER is neither on nor off.
    """
    settings = process_settings()
    wanted = settings.text(COMPILER_VARIABLE) or "on"
    if wanted not in ("on", "off"):
        raise BadData(f"{COMPILER_VARIABLE} is {wanted!r}; expected on or off")
    return CpuDevice(compiles=wanted == "on", settings=settings)


def get_ready() -> None:
    """Loads the native functions of executions, if the package has them for this processor."""
    from neurald.drivers.cpu.native.thread_pool import process

    process.load_step_program()
