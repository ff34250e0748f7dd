"""Executions with one fault each, and prepared models with faulty state between executions."""

import ctypes
import mmap
import os
import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from support.devices.faulty import FaultyPrepared

from neurald.hal.device import (
    Burst,
    ExecuteOptions,
    ExecutionResult,
    OutputShape,
    PreparedModel,
)
from neurald.hal.errors import Error, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def _bytes(request: Request, argument: Argument, before: int = 0, behind: int = 0) -> Bytes:
    """Returns the writable bytes of an argument, and some around it within its memory."""
    assert argument.pool is not None
    content = np.frombuffer(request.pools[argument.pool].view(), np.uint8)
    return content[max(0, argument.offset - before) : argument.offset + argument.length + behind]


def _array(request: Request, argument: Argument, kind: OperandType) -> np.ndarray[Any, Any]:
    return _bytes(request, argument).view(kind.dtype)


# Faulty executions, which run the correct one first, or not at all.


def overrun(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    for argument in request.outputs:
        # Vectors of 16 bytes, including the last one.
        behind = -argument.length % 16
        if argument.padding < behind:
            _bytes(request, argument, behind=behind)[argument.length :] = 0
    return result


def underrun(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    for argument in request.outputs:
        if argument.offset:
            _bytes(request, argument, before=1)[0] ^= 1
    return result


def short_overrun(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    if not result.is_sufficient:
        for argument in request.outputs:
            _bytes(request, argument, behind=4)[-4:] = 1
    return result


def writes_input(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    for argument in request.inputs:
        if argument.length:
            _bytes(request, argument)[-1] ^= 255
    return result


def leaves_tail(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    before = [_bytes(request, argument)[-4:].copy() for argument in request.outputs]
    result = right.execute(request, options)
    for argument, old in zip(request.outputs, before, strict=True):
        if argument.length > 16:
            _bytes(request, argument)[-4:] = old
    return result


def adds_to_output(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Adds to the output's previous content, as if it had been cleared."""
    before = [_bytes(request, argument).copy() for argument in request.outputs]
    result = right.execute(request, options)
    for argument, old in zip(request.outputs, before, strict=True):
        _bytes(request, argument)[:] += old & 0x10
    return result


def reads_behind_input(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    first = request.inputs[0]
    behind = _bytes(request, first, behind=1)[first.length :]
    if behind.size and behind[0] & 0x80:
        for argument in request.outputs:
            _bytes(request, argument)[:] += 0x10
    return result


def from_the_start(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Reads inputs at offset 0 of their memories."""
    inputs = tuple(replace(argument, offset=0) for argument in request.inputs)
    return right.execute(replace(request, inputs=inputs), options)


def two_steps_off(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    graph = right.model.main  # type: ignore[attr-defined]
    for argument, index in zip(request.outputs, graph.outputs, strict=True):
        kind = graph.operands[index].type
        if kind in QUANTIZED:
            array = _array(request, argument, kind)
            array[array < np.iinfo(kind.dtype.name).max - 1] += 2
    return result


def past_the_memory(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Stores whole vectors by address."""
    result = right.execute(request, options)
    for argument in request.outputs:
        assert argument.pool is not None
        if argument.length % 16 and argument.padding < 16 - argument.length % 16:
            end = request.pools[argument.pool].address + argument.offset + argument.length
            ctypes.memset(end, 0, 16 - argument.length % 16)
    return result


def no_nan(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    graph = right.model.main  # type: ignore[attr-defined]
    for argument, index in zip(request.outputs, graph.outputs, strict=True):
        kind = graph.operands[index].type
        if kind.dtype.kind == "f":
            array = _array(request, argument, kind)
            array[np.isnan(array)] = 0
    return result


def long_remainder(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Computes wrong elements after the last whole vector of 64."""
    result = right.execute(request, options)
    for argument in request.outputs:
        if argument.length > 64 and argument.length % 64:
            _bytes(request, argument)[-1] ^= 0x40
    return result


def wrong_shape(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    shapes = [
        replace(shape, dimensions=(shape.dimensions or ())[::-1] or (1,)) for shape in result.output_shapes
    ]
    return replace(result, output_shapes=tuple(shapes))


def always_sufficient(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    shapes = [replace(shape, sufficient=True) for shape in result.output_shapes]
    return replace(result, output_shapes=tuple(shapes))


def no_shape_when_short(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    if result.is_sufficient:
        return result
    shapes = [OutputShape(dimensions=(), sufficient=False) for _ in result.output_shapes]
    return replace(result, output_shapes=tuple(shapes))


def ignores_cancel(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    return right.execute(request, replace(options, cancellation=None))


def ignores_deadline_while_running(
    right: PreparedModel, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    is_late = options.deadline_s is not None and time.monotonic() >= options.deadline_s
    return right.execute(request, options if is_late else replace(options, deadline_s=None))


def ignores_deadline(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    return right.execute(request, replace(options, deadline_s=None))


def late_as_failure(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    try:
        return right.execute(request, options)
    except Error as error:
        raise OpFailed(str(error)) from None


def negative_time(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    result = right.execute(request, options)
    on_device = result.timing.in_driver_ns
    if on_device is None:
        return result
    return replace(result, timing=replace(result.timing, on_device_ns=on_device + 1))


# Executions that access memory next to a buffer without a change, which only guard pages reveal.


def _place(request: Request, argument: Argument) -> int:
    assert argument.pool is not None
    return request.pools[argument.pool].address + argument.offset


def _is_at_the_end_of_a_page(request: Request, argument: Argument) -> bool:
    """Returns True if an argument ends at the end of a page, as only memory from mmap does here."""
    return (_place(request, argument) + argument.length) % mmap.PAGESIZE == 0


def reads_past_an_input(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    last = request.inputs[-1]
    ctypes.string_at(_place(request, last) + last.length, 1)
    return right.execute(request, options)


def reads_before_an_input(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    ctypes.string_at(_place(request, request.inputs[0]) - 64, 16)
    return right.execute(request, options)


def writes_back_past_an_output(
    right: PreparedModel, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    """Writes the present content, which the kernel can read even from a guard page."""
    result = right.execute(request, options)
    first = request.outputs[0]
    behind = _place(request, first) + first.length
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        ctypes.memset(behind, os.pread(memory, 1, behind)[0], 1)
    finally:
        os.close(memory)
    return result


def aborts(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Aborts the process if an output is placed next to a guard page."""
    if _is_at_the_end_of_a_page(request, request.outputs[0]):
        os.write(2, b"an assertion does not hold\n")
        os.abort()
    return right.execute(request, options)


def jumps_to_nowhere(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Dereferences a null pointer if an output is placed next to a guard page."""
    if _is_at_the_end_of_a_page(request, request.outputs[0]):
        ctypes.string_at(16, 1)
    return right.execute(request, options)


def waits_for_ever(right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
    """Never returns if an output is placed next to a guard page."""
    if _is_at_the_end_of_a_page(request, request.outputs[0]):
        time.sleep(600)
    return right.execute(request, options)


def wrong_at_the_end_of_a_page(
    right: PreparedModel, request: Request, options: ExecuteOptions
) -> ExecutionResult:
    result = right.execute(request, options)
    if _is_at_the_end_of_a_page(request, request.outputs[0]):
        _bytes(request, request.outputs[0])[-1] ^= 0x40
    return result


def read_past_constants(model: Model) -> None:
    """Reads the byte after each constant of a model."""
    for operand in model.main.operands:
        if operand.lifetime is Lifetime.CONSTANT_POOL and (place := operand.location) is not None:
            memory: Memory = model.pools[place.pool]
            ctypes.string_at(memory.address + place.offset + place.length, 1)


# Prepared models with state between executions.


class _Stateful(FaultyPrepared, ABC):
    """A prepared model whose executions call a method."""

    def __init__(self, right: PreparedModel) -> None:
        super().__init__(right, self.run)

    @abstractmethod
    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult: ...


class Remembering(_Stateful):
    """Always returns the outputs of its first execution."""

    kept: list[Bytes] | None = None

    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result = right.execute(request, options)
        if self.kept is None:
            self.kept = [_bytes(request, argument).copy() for argument in request.outputs]
        for argument, old in zip(request.outputs, self.kept, strict=True):
            view = _bytes(request, argument)
            if view.size == old.size:
                view[:] = old
        return result


class StaleScratch(_Stateful):
    """Does not clear its scratch memory, which keeps the maxima of earlier executions."""

    scratch: Bytes | None = None

    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result = right.execute(request, options)
        view = _bytes(request, request.outputs[0])
        if self.scratch is not None and self.scratch.size == view.size:
            view[:] = np.maximum(view, self.scratch)
        self.scratch = view.copy()
        return result


class SharedScratch(_Stateful):
    """Shares scratch memory between concurrent executions."""

    scratch: list[Bytes]

    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result = right.execute(request, options)
        if result.is_sufficient:
            self.scratch = [_bytes(request, argument).copy() for argument in request.outputs]
            time.sleep(0.0005)
            for argument, content in zip(request.outputs, self.scratch, strict=True):
                _bytes(request, argument)[:] = content
        return result


class StaleBurst(_Stateful):
    """A burst always reads the inputs of its first execution."""

    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        return right.execute(request, options)

    def create_burst(self) -> Burst:  # type: ignore[override]
        outer = self

        class Stale:
            result: ExecutionResult | None = None

            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                if self.result is None:
                    self.result = outer.execute(request, options)
                else:
                    for argument in request.outputs:
                        _bytes(request, argument)[:1] ^= 0x40
                return self.result

            def close(self) -> None: ...

        return Stale()


class WritesConstants(_Stateful):
    """Converts constants to another layout in place."""

    def run(self, right: PreparedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result = right.execute(request, options)
        for pool in right.model.pools:  # type: ignore[attr-defined]
            if not pool.readonly:
                pool.view()[-70:] = bytes(pool.view()[-70:])[::-1]
        return result
