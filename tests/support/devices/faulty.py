"""Devices with one fault each, which a conformance suite must find.

Their names as drivers have the form `support.devices.faulty:create_adding_one`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from support.devices.misbehaving import SampleDevice

from neurald.hal.device import (
    Artifact,
    BufferDescription,
    BufferRole,
    ExecuteOptions,
    ExecutionResult,
    KernelTime,
    OutputShape,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import Error
from neurald.hal.execution.in_process import InProcessBurst, start_fenced
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Request
from neurald.hal.records import replace

Execute = Callable[[PreparedModel, Request, ExecuteOptions], ExecutionResult]


class FaultyPrepared:
    """A prepared model with faulty executions."""

    tolerates_changing_inputs = False

    def __init__(self, right: PreparedModel, execute: Execute) -> None:
        self.right = right
        self._execute = execute

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        return self._execute(self.right, request, options)

    def execute_fenced(self, request, wait_for, options, after_fences_s=None):  # type: ignore[no-untyped-def]
        return start_fenced(self, request, wait_for, options, after_fences_s)

    def create_burst(self) -> InProcessBurst:
        return InProcessBurst(self)

    def artifact(self) -> Artifact | None:
        return self.right.artifact()

    def profile(self) -> Sequence[KernelTime]:
        return self.right.profile()


class Faulty(SampleDevice):
    """A `SampleDevice` whose executions call `execute`."""

    def __init__(
        self,
        execute: Execute,
        name: str = "faulty",
        *,
        performance: float = 1.0,
        supports: Callable[[OperationType], bool] = lambda _: True,
    ) -> None:
        super().__init__(name, performance=performance, supports=supports)
        self._execute = execute

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return FaultyPrepared(prepared, self._execute)

    def allocate(self, description: BufferDescription) -> Memory:
        return super().allocate(
            replace(
                description,
                input_roles=_right_ones(description.input_roles),
                output_roles=_right_ones(description.output_roles),
            )
        )


def _right_ones(roles: Sequence[BufferRole]) -> tuple[BufferRole, ...]:
    """Returns the roles for the prepared models of the sample driver."""
    models = [role.prepared_model for role in roles]
    return tuple(
        replace(role, prepared_model=model.right if isinstance(model, FaultyPrepared) else model)
        for role, model in zip(roles, models, strict=True)
    )


def _add_one(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    for argument in request.outputs:
        assert argument.pool is not None
        view = request.pools[argument.pool].view(argument.offset, argument.length)
        content = np.frombuffer(view, np.uint8)
        content[-4:] += np.uint8(64)
    return result


def _lie(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    shapes = [OutputShape(dimensions=(*(shape.dimensions or ()), 1)) for shape in result.output_shapes]
    return replace(result, output_shapes=tuple(shapes))


def _ignore_deadline(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    return right.execute(request, replace(options, deadline_s=None))


def create_adding_one() -> Faulty:
    return Faulty(_add_one)


def create_lying_about_shapes() -> Faulty:
    return Faulty(_lie)


def create_ignoring_deadlines() -> Faulty:
    return Faulty(_ignore_deadline)


class Credulous(SampleDevice):
    """Accepts every model, although it claims to be remote and so must not trust its client."""

    is_remote = True

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return (Verdict(ok=True),) * len(model.main.operations)

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        try:
            return super().prepare_model(model, options)
        except (Error, LookupError, ValueError):
            return FaultyPrepared(self, lambda right, request, options: ExecutionResult(output_shapes=()))  # type: ignore[arg-type]


class Forgetful(SampleDevice):
    """Claims to cache, but returns no artifact."""

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        class Prepared(FaultyPrepared):
            def artifact(self) -> Artifact | None:
                return None

        return Prepared(prepared, lambda right, request, options: right.execute(request, options))


class Misprofiling(SampleDevice):
    """Profiles operations that do not exist."""

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        class Prepared(FaultyPrepared):
            def profile(self) -> Sequence[KernelTime]:
                return (KernelTime(name="other", duration_ns=1, operations=(99,)),)

        return Prepared(prepared, lambda right, request, options: right.execute(request, options))


def create_misprofiling() -> Misprofiling:
    return Misprofiling("misprofiling")


def create_credulous() -> Credulous:
    return Credulous("credulous")


def create_forgetful() -> Forgetful:
    return Forgetful("forgetful")
