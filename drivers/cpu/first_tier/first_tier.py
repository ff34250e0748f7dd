"""The first tier of the CPU device: models bound to kernels that were compiled beforehand."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from neurald.drivers.cpu.first_tier.library import FirstTierLibrary
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import Artifact, Device, ExecuteOptions, Variants
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.process.interpreter import interpreter
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # Most models need only some of these.
    from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.hal.cache.store import CacheLocation
    from neurald.hal.compiling.job import Keep
    from neurald.hal.execution.reference_model import ReferenceModel
    from neurald.hal.operations.machinery.call import Shape

#: Binds a model for the shapes of inputs that it leaves open, by operand.
Bind: TypeAlias = "Callable[[Model, Mapping[int, Shape], ExecuteOptions], CpuPreparedModel | ReferenceModel]"


class FirstTier:
    """Binds models to the kernels of the library. Until it is compiled, references run them.

    Args:
        device: the CPU device, which owns the models.
        target: the target of the kernels.

    Attributes:
        library: the kernels.
    """

    def __init__(self, device: Device, target: Target) -> None:
        self._device = device
        self._target = target
        # Without an interpreter, as in an application that embeds one, no process can start.
        apart = (self._compile_apart, self._leave_to_process) if interpreter() else ()
        self.library = FirstTierLibrary(target, *apart)

    def _compile_apart(self, cancellation: Cancellation) -> Artifact:
        from neurald.hal.compiling.separate_compiler import compile_common

        return compile_common(self._device.name, self._device, cancellation)

    def _leave_to_process(self, keep: "Keep", location: "CacheLocation") -> None:
        from neurald.hal.compiling.separate_compiler import leave_to_process

        leave_to_process(self._device.name, self._device, None, keep, location)

    def prepare(
        self, model: Model, threads: int, shared: Variants | None
    ) -> "CpuPreparedModel | ReferenceModel":
        """Binds a model whose dimensions are specified.

        Operations for which that requires what only executions know are bound by these.

        Args:
            model: the model.
            threads: number of threads that run it.
            shared: keeps the library; None to keep it in this process only.
        """
        bound = self.bind(model, threads, shared)
        if bound.steps is None:
            return bound
        from neurald.drivers.cpu.parts.late_segment import late_steps
        from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel

        def bind_operation(
            operation: Model, shapes: "Mapping[int, Shape]"
        ) -> "CpuPreparedModel | ReferenceModel":
            return self.bind(operation, threads, shared)

        return PartlyCompiledModel(model, late_steps(model, bound.steps, [bind_operation]))

    def bind(
        self, model: Model, threads: int, shared: Variants | None
    ) -> "CpuPreparedModel | ReferenceModel":
        """Binds a model as far as possible without an execution; see `prepare`."""
        code = self.library.code(shared)
        if code is None:
            from neurald.hal.execution.reference_model import ReferenceModel

            return ReferenceModel(model)
        from neurald.drivers.cpu.first_tier.preparation import prepare
        from neurald.hal.process.memory.gc_pause import paused_gc

        with paused_gc():
            return prepare(model, self._target, code, self.library.team(threads))

    def prepare_open(self, model: Model, threads: int, shared: Variants | None) -> "SpecializingModel":
        """Returns a model that executions bind, for each set of input shapes.

        Args:
            model, threads, shared: as for `prepare`.
        """
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel

        self.library.code(shared)
        bind = partial(self._prepare_for, threads=threads, shared=shared)
        return SpecializingModel(model, bind, owner=self._device, tolerant=False)

    def _prepare_for(
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
        return self.prepare(known, threads, shared)

    def taking_over(self, earlier: object, threads: int, shared: Variants | None) -> Bind:
        """Returns what binds a model for shapes, and takes over what was bound for the first.

        Args:
            earlier: the first tier of the model so far.
            threads, shared: as for `prepare`.
        """
        from neurald.drivers.compiler.frontend.variants.shape_specialization import SpecializingModel

        def bind(
            model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions
        ) -> "CpuPreparedModel | ReferenceModel":
            nonlocal earlier
            before, earlier = earlier, None
            bound = before.give_away(shapes) if isinstance(before, SpecializingModel) else None
            if bound is not None:
                return cast("CpuPreparedModel | ReferenceModel", bound)
            return self._prepare_for(model, shapes, limits, threads=threads, shared=shared)

        return bind
