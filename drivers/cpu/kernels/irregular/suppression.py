"""Suppression of boxes that overlap better ones, with lowered scores if wanted."""

import math
from collections.abc import Mapping

from neurald.drivers.compiler.ir.algorithm import GreedySelection, Suppression
from neurald.drivers.compiler.ir.extents.extent import Extent, smaller
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.support.kernel_file import kernel_text
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameters, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.vector import Vector, literal
from neurald.drivers.cpu.kernels.common.function import cost_ns
from neurald.drivers.cpu.target.routine import NAME, Routine
from neurald.drivers.cpu.target.target import Target

#: Cycles of a level of the heap.
_LEVEL_CYCLES = 5.0
#: Number of boxes that are compared with another one at once, and cycles for that.
_COMPARED, _COMPARED_CYCLES = 8, 25.0
_DECLARATIONS = frozenset(
    f"declare <8 x float> @llvm.{name}.v8f32(<8 x float>, <8 x float>)" for name in ("minimum", "maximum")
)
_SUPPRESSION_DECLARATIONS = frozenset(
    (
        "declare float @llvm.minimum.f32(float, float)",
        "declare float @llvm.maximum.f32(float, float)",
        "declare i64 @llvm.usub.sat.i64(i64, i64)",
        "declare i8 @llvm.ctlz.i8(i8, i1)",
    )
)
#: What is stored of selected boxes.
_ROWS = ("TOP", "LEFT", "BOTTOM", "RIGHT", "AREA")
_FLOAT_BYTES = 4
_PAIR_BYTES, _CORNER_BYTES, _ELEMENT_BYTES = 8, 16, 16


def routine(kernel: Kernel, node: Procedure, algorithm: Suppression, target: Target) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        node: its procedure.
        algorithm: the algorithm of the procedure.
        target: the target of the code.
    """
    arguments = arguments_of(kernel)
    names = pointer_names(arguments)
    boxes, scores, iou_limit, least, sigma = (names[value] for value in node.inputs)
    count, limit = node.inputs[1].count, algorithm.limit
    # Room for as many boxes as one of both suffices, whichever is less.
    chosen = smaller(limit, count) if isinstance(count, Extent) else smaller(count, limit)
    kept = _rows(chosen)
    exponential, declarations = _exponential(target)
    text = _overlaps(kept) + kernel_text(
        __name__,
        "suppression.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        BOXES=boxes,
        SCORES=scores,
        IOU_LIMIT=iou_limit,
        LEAST=least,
        SIGMA=sigma,
        COUNT=count,
        LIMIT=limit,
        CORNER_BYTES=count * _CORNER_BYTES,
        CHOSEN_BYTES=_length(kept),
        **kept,
    )
    return Routine(
        text=exponential + text,
        arguments=arguments,
        work_items=1,
        cost_ns=cost_ns(_cycles(count, chosen), arguments),
        declarations=declarations | _DECLARATIONS | _SUPPRESSION_DECLARATIONS,
        scratch_bytes=_length(kept) + count * (_CORNER_BYTES + _ELEMENT_BYTES),
        label=f"{limit} of {count} boxes",
        operations=kernel.operations,
    )


def greedy_routine(kernel: Kernel, node: Procedure, algorithm: GreedySelection) -> Routine:
    """Returns the routine of a kernel that selects boxes from the best score to the worst."""
    arguments = arguments_of(kernel)
    names = pointer_names(arguments)
    boxes, scores = (names[value] for value in node.inputs)
    (rows, count), limit = node.inputs[1].shape, algorithm.limit
    chosen = min(count, limit)
    kept = _rows(chosen)
    text = _overlaps(kept) + kernel_text(
        __name__,
        "greedy.ll",
        KERNEL=NAME,
        PARAMETERS=parameters(arguments),
        BOXES=boxes,
        SCORES=scores,
        COUNT=count,
        LIMIT=limit,
        ROW_RESULTS=limit + 1,
        IMAGE_ROWS=max(1, rows // node.inputs[0].shape[0]),
        IOU_LIMIT=literal("float", algorithm.iou_limit),
        CHOSEN_BYTES=_length(kept),
        # A comparison with NaN is true for predicates that begin with "u".
        PREDICATE="uge" if algorithm.includes_limit else "ogt",
        WITHOUT_AREAS=str(algorithm.includes_limit).lower(),
        **kept,
    )
    return Routine(
        text=text,
        arguments=arguments,
        work_items=rows,
        cost_ns=cost_ns(rows * _cycles(count, chosen), arguments),
        declarations=_DECLARATIONS,
        scratch_bytes=_length(kept) + count * _PAIR_BYTES,
        label=f"{limit} of {count} boxes",
        operations=kernel.operations,
    )


def _rows(chosen: int) -> dict[str, int]:
    """Returns where the rows of coordinates of selected boxes begin."""
    row_bytes = -(-chosen // _COMPARED) * _COMPARED * _FLOAT_BYTES
    return {f"ROW_{name}": row_bytes * number for number, name in enumerate(_ROWS)}


def _length(kept: Mapping[str, int]) -> int:
    """Returns the length of all rows in bytes."""
    return kept["ROW_LEFT"] * len(_ROWS)


def _overlaps(kept: Mapping[str, int]) -> str:
    """Returns the function that compares a box with selected ones."""
    return kernel_text(__name__, "overlaps.ll", KERNEL=NAME, **kept)


def _cycles(count: int, chosen: int) -> float:
    """Returns the approximate number of cycles to select from a number of boxes."""
    levels, compared = math.log2(count + 2), -(-chosen // _COMPARED)
    return count * _LEVEL_CYCLES + 2 * chosen * (levels * _LEVEL_CYCLES + compared * _COMPARED_CYCLES / 2)


def _exponential(target: Target) -> tuple[str, frozenset[str]]:
    """Returns a function that computes e^x, and the declarations that it needs."""
    code = Instructions(("%x",))
    result = vector_math.exp(Vector(code, target, 1), "float", "%x")
    lines = (f"define internal float @{NAME}_exp(float %x) nounwind {{", *code.lines)
    return "\n".join((*lines, f"  ret float {result}", "}", "")), frozenset(code.declarations)
