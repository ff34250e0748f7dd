"""LiteRT's private module that records the ranges of tensors, which AI Edge Quantizer uses."""

from dataclasses import dataclass

import numpy as np

from neurald.runtime.litert.interpreter.native_interpreter import living


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest value of a tensor."""

    min: float
    max: float


def InvokeWithCalibration(interpreter_handle: int, subgraph_index: int) -> dict[str, Range]:  # noqa: N802
    """Runs a subgraph, and returns the ranges of its inputs and results by tensors' names.

    Args:
        interpreter_handle: what `Interpreter._native_handle` returns.
        subgraph_index: the subgraph, whose inputs are set.

    Returns:
        The ranges of FLOAT32 and INT32 tensors with elements. If several have the same name, of all
        of them together.

    Raises:
        ValueError: there is no such interpreter or subgraph.
        RuntimeError: the inputs are not set, or the execution failed.
    """
    native = living(interpreter_handle)
    plain = native.runner(subgraph_index)
    kept = native.keeping_all().runner(subgraph_index)
    for index in plain.inputs:
        kept.resize(index, plain.shape(index), is_strict=False)
    kept.allocate()
    for index in plain.inputs:
        kept.set(index, plain.get(index))
    plain.invoke()
    kept.invoke()
    found: dict[str, Range] = {}
    for name, value in kept.results():
        if value.dtype not in (np.float32, np.int32) or not value.size:
            continue
        least, most = float(value.min()), float(value.max())
        earlier = found.get(name)
        if earlier is not None:
            least, most = min(least, earlier.min), max(most, earlier.max)
        found[name] = Range(least, most)
    return found
