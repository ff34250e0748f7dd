"""Prepares models that this process compiles for the CPU device."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.drivers.cpu.native.objects.compile_helper import start_ahead
from neurald.drivers.cpu.target.target import Target
from neurald.hal.device import ExecuteOptions, Variants
from neurald.hal.errors import OutOfMemory
from neurald.hal.model.model import Model
from neurald.hal.process.memory.gc_pause import paused_gc

if TYPE_CHECKING:
    # The compiler is slow to import. A warm start does without, a cold one imports it late.
    from neurald.drivers.cpu.open_model import CpuOpenModel
    from neurald.drivers.cpu.preparation import Preparation
    from neurald.drivers.cpu.prepared_model import CpuPreparedModel
    from neurald.hal.execution.reference_model import ReferenceModel
    from neurald.hal.operations.machinery.call import Shape


class InProcessPreparation(Struct, frozen=True, kw_only=True):
    """Prepares models that this process compiles.

    Attributes:
        target: the target to generate code for.
        threads: number of threads that run the models.
        keeps_artifact: True if `PreparedModel.artifact` will be called.
        shared: keeps kernels that several models have; None to compile all of them.
    """

    target: Target
    threads: int
    keeps_artifact: bool
    shared: Variants | None

    def prepare(
        self,
        model: Model,
        shapes: "Mapping[int, Shape] | None" = None,
        limits: ExecuteOptions | None = None,
    ) -> "CpuPreparedModel | ReferenceModel":
        """See `neurald.drivers.cpu.caching_preparation.Prepare`."""
        with self._compiler(model, keeps_artifact=self.keeps_artifact) as preparation:
            return preparation.prepare(model, shapes)

    def compile_open(
        self, model: Model, shapes: "Mapping[int, Shape]", limits: ExecuteOptions | None = None
    ) -> "CpuOpenModel | None":
        """See `neurald.drivers.cpu.caching_preparation.CompileOpen`."""
        with self._compiler(model, keeps_artifact=True) as preparation:
            return preparation.open(model, shapes)

    @contextmanager
    def _compiler(self, model: Model, *, keeps_artifact: bool) -> "Iterator[Preparation]":
        """Returns a context manager that provides what compiles a model.

        Raises:
            OutOfMemory: there was not enough memory within the context.
        """
        helper = start_ahead(self.target, len(model.main.operations))
        try:
            with paused_gc():
                # Imported while the helper starts.
                from neurald.drivers.cpu.native.objects.kernel_store import KernelStore
                from neurald.drivers.cpu.preparation import Preparation

                yield Preparation(
                    self.target,
                    self.threads,
                    keeps_artifact=keeps_artifact,
                    helper=helper,
                    store=None if self.shared is None else KernelStore(self.shared, self.target),
                )
        except MemoryError:
            raise OutOfMemory("cpu: there is not enough memory to compile the model") from None
        finally:
            if helper is not None:
                helper.close()
