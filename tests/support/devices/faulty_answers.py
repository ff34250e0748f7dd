"""Drivers that answer wrongly about themselves and models, or manage memory and fences wrongly."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from support.devices.faulty import FaultyPrepared
from support.devices.unrecorded import SampleDevice

from neurald.hal.device import (
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    FencedExecution,
    PreparedModel,
    PrepareOptions,
    Verdict,
)
from neurald.hal.errors import OpFailed
from neurald.hal.execution.in_process import start_fenced
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.hal.sync.fence import Fence


class Promising(SampleDevice):
    """Claims to support operations that it cannot prepare."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        if any((operand.dimensions or ()).count(1) > 1 for operand in model.main.operands):
            raise OpFailed("two dimensions of length 1")
        return super().prepare_model(model, options)


class Moody(SampleDevice):
    """Supports fewer operations after its first preparation."""

    _count = 0

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self._count += 1
        return super().prepare_model(model, options)

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        if self._count % 7 == 6 and threading.current_thread() is threading.main_thread():
            return [Verdict(ok=False, reason="busy")] * len(model.main.operations)
        return super().supported_operations(model)


class Allocating(SampleDevice):
    """Allocates the tensors of a model to find out whether it supports it."""

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        for operand in model.main.operands:
            if operand.is_fully_specified and operand.dimensions and operand.type.is_tensor:
                np.ones(min(int(np.prod(operand.dimensions)), 1 << 28), np.uint8)
        return super().supported_operations(model)


class Silent(SampleDevice):
    """Refuses without a reason."""

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return [Verdict(ok=False)] * len(model.main.operations)


class Boasting(SampleDevice):
    """Claims an execution time of zero."""

    def capabilities(self) -> Capabilities:
        found = super().capabilities()
        return replace(found, if_performance=replace(found.if_performance, exec_time=0.0))


class Keeping(SampleDevice):
    """Never releases a prepared model."""

    def __init__(self) -> None:
        super().__init__("faulty")
        self.kept: list[PreparedModel] = []

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        self.kept.append(prepared)
        return prepared


class Leaking(SampleDevice):
    """Releases prepared models, but not their constants."""

    def __init__(self) -> None:
        super().__init__("faulty")
        self.packed: list[bytes] = []

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        self.packed += [bytes(pool.view()) for pool in model.pools]
        return super().prepare_model(model, options)


class NoEmpty(SampleDevice):
    """Divides by the number of elements."""

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        def execute(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
            _ = 1 // min((argument.length for argument in request.outputs), default=1)
            return right.execute(request, options)

        return FaultyPrepared(prepared, execute)


class _Impatient(FaultyPrepared):
    def __init__(self, right: PreparedModel) -> None:
        super().__init__(right, lambda right, request, options: right.execute(request, options))

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence],
        options: ExecuteOptions,
        after_fences_s: float | None = None,
    ) -> FencedExecution:
        return start_fenced(self, request, (), options, after_fences_s)


class Impatient(SampleDevice):
    """Fenced executions do not wait for their fences."""

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return _Impatient(prepared)


class SameMemory(SampleDevice):
    """Returns the same memory for every allocation."""

    _memory: HostMemory | None = None

    def allocate(self, description: Any) -> Any:
        found = super().allocate(description)
        if self._memory is None or self._memory.size < found.size:
            self._memory = HostMemory(np.zeros(max(1 << 16, found.size), np.uint8))
        return self._memory
