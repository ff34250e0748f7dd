"""Executions of stateful models: their variables go in as further inputs and come out as further outputs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neurald.hal.device import ExecutionResult
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory import HostMemory
from neurald.hal.types import Argument, OperandType, Request, array_to_store, stored_array
from neurald.runtime.state import State


def execute_with_state(
    state: State,
    types: Sequence[OperandType],
    request: Request,
    execute: Callable[[Request], ExecutionResult],
) -> ExecutionResult:
    """Runs with the variables, and keeps their new values if all went well.

    Args:
        state: the variables; held for the whole execution.
        types: of the variables.
        request: without the variables.
        execute: runs a request with them.

    Returns:
        The result without the variables.

    Raises:
        OpFailed: what the device wrote are no values of a variable.
        Error: the execution failed.
    """
    with state.lock:
        values = state.values()
        old = [array_to_store(value, kind) for value, kind in zip(values, types, strict=True)]
        old_shapes = [value.shape for value in values]
        new = [np.empty(value.nbytes, np.uint8) for value in old]
        while True:
            result = execute(_extended(request, old, old_shapes, new))
            shown = len(result.output_shapes) - len(new)
            visible = replace(result, output_shapes=result.output_shapes[:shown])
            if not visible.is_sufficient:
                return visible
            shapes = result.output_shapes[shown:]
            sizes = [shape.size_bytes(kind) or 0 for shape, kind in zip(shapes, types, strict=True)]
            if result.is_sufficient:
                break
            # A variable has grown. Nothing is kept of a run until it fits, so it can simply be done again.
            new = [np.empty(size_bytes, np.uint8) for size_bytes in sizes]
        try:
            kept = [
                stored_array(HostMemory(buffer).view(0, size_bytes), kind, shape.dimensions or ())
                for buffer, size_bytes, kind, shape in zip(new, sizes, types, shapes, strict=True)
            ]
        except BadData as error:
            raise OpFailed(f"the device wrote no strings: {error}") from None
        state.replace(kept)
        return visible


def _extended(
    request: Request,
    old: Sequence["np.ndarray[Any, Any]"],
    shapes: Sequence[tuple[int, ...]],
    new: Sequence["np.ndarray[Any, Any]"],
) -> Request:
    """A request with further inputs, of these shapes, and outputs, in memories of their own."""
    first = len(request.pools)
    arguments = [
        Argument(pool=first + n, length=value.nbytes, dimensions=shapes[n] if n < len(old) else None)
        for n, value in enumerate((*old, *new))
    ]
    return Request(
        inputs=(*request.inputs, *arguments[: len(old)]),
        outputs=(*request.outputs, *arguments[len(old) :]),
        pools=(*request.pools, *(HostMemory(value) for value in (*old, *new))),
    )
