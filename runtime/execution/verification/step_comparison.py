"""Compares a device's results of a step with those of the CPU device.

Operations of a step are rounded in other ways on each device, and errors grow from one operation to
the next. Therefore the bounds of one operation are widened for a step of several. An operation that
decides by such values, such as ARGMAX, may then decide otherwise without being wrong: outputs that
depend on one are *undecided* if they differ.
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.execution.output_comparison import RANDOM, Bounds, describe_beyond
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import OperandType
from neurald.runtime.model.branches import is_control_flow

#: In relation to the largest element, this many times the relative error of an element is allowed:
#: elements near zero are often differences of large ones.
_OF_LARGEST: Final = 4.0
#: Operations with a jump in a result that is not an integer.
_JUMPS: Final = frozenset(
    (
        OperationType.FLOOR,
        OperationType.HEATMAP_MAX_KEYPOINT,
        OperationType.ROI_POOLING,
        OperationType.TFLITE_ATAN2,
        OperationType.TFLITE_CEIL,
        OperationType.TFLITE_FAKE_QUANT,
        OperationType.TFLITE_FLOOR,
        OperationType.TFLITE_FLOOR_DIV,
        OperationType.TFLITE_FLOOR_MOD,
        OperationType.TFLITE_ROUND,
        OperationType.TFLITE_SIGN,
    )
)


class Difference(Struct, frozen=True, kw_only=True):
    """A difference between the results of two devices.

    Attributes:
        text: describes it.
        is_certain: False if rounding may be the cause.
    """

    text: str
    is_certain: bool


class StepComparison:
    """Compares the outputs of one step.

    Args:
        model: the model of the step.
    """

    def __init__(self, model: Model) -> None:
        graph = model.main
        self._operands = [graph.operands[index] for index in graph.outputs]
        count = sum(len(each.operations) for each in (graph, *model.referenced))
        self._bounds = [_bounds(each.type, count, relaxed=model.relaxed) for each in self._operands]
        undecided = _undecided(graph)
        self._is_certain = [index not in undecided for index in graph.outputs]

    def difference(self, wanted: Sequence[Array], found: Sequence[Array]) -> Difference | None:
        """Returns the first difference beyond the bounds; one that is certain if there is one.

        Args:
            wanted: the outputs of the CPU device.
            found: the outputs of the other device.
        """
        uncertain = None
        for number, operand in enumerate(self._operands):
            text = _beyond(operand, wanted[number], found[number], self._bounds[number])
            if text:
                difference = Difference(text=f"output {number}: {text}", is_certain=self._is_certain[number])
                if difference.is_certain:
                    return difference
                uncertain = uncertain or difference
        return uncertain


def may_be_compared(model: Model) -> bool:
    """Returns True if executions of a model have the same results, which can be compared.

    Strings cannot: their outputs grow with their content.
    """
    graph = model.main
    kinds = [graph.operands[index].type for index in (*graph.inputs, *graph.outputs)]
    return all(kind.dtype.kind in "biufc" for kind in kinds) and not any(
        operation.type in RANDOM for each in (graph, *model.referenced) for operation in each.operations
    )


def has_undecided(model: Model) -> bool:
    """Returns True if an operation of a model decides by values that others of it compute."""
    return bool(_undecided(model.main))


def _beyond(operand: Operand, wanted: Array, found: Array, bounds: Bounds) -> str:
    if wanted.shape == found.shape and wanted.dtype != object and wanted.tobytes() == found.tobytes():
        return ""
    return describe_beyond(operand.type, wanted, found, bounds)


def _bounds(kind: OperandType, count: int, *, relaxed: bool) -> Bounds:
    one = Bounds.of_type(kind, relaxed=relaxed)
    if kind.dtype.kind in "fc":
        growth = math.sqrt(max(1, count))
        return Bounds(
            absolute=one.absolute * growth,
            relative=one.relative,
            of_largest=_OF_LARGEST * one.relative * growth,
        )
    if kind in QUANTIZED:
        return Bounds(absolute=one.absolute + math.log2(max(1, count)) // 2, relative=0.0)
    return one


def _undecided(graph: Subgraph) -> set[int]:
    """Returns the values that depend on a decision by values that may be rounded otherwise."""
    rounded: set[int] = set()
    found: set[int] = set()
    for operation in graph.operations:
        inputs = [graph.operands[index] for index in operation.inputs]
        outputs = [graph.operands[index] for index in operation.outputs]
        is_float = any(each.type.dtype.kind in "fc" for each in outputs)
        jumps = (
            operation.type in _JUMPS
            or is_control_flow(operation)
            or any(_is_exact(each.type) for each in outputs)
            # One step of a quantised value is much for a value that is not quantised.
            or (is_float and any(each.type in QUANTIZED for each in inputs))
            or (
                not is_float
                and any(each.type.dtype.kind == "f" and not each.lifetime.is_constant for each in inputs)
            )
        )
        read = set(operation.inputs)
        if read & found or (jumps and read & rounded):
            found.update(operation.outputs)
        rounded.update(
            index for index, each in zip(operation.outputs, outputs, strict=True) if not _is_exact(each.type)
        )
    return found


def _is_exact(kind: OperandType) -> bool:
    return kind.dtype.kind not in "fc" and kind not in QUANTIZED
