"""Inner loops for 64-bit Arm: the counts in the guide, and code that they must not contain.

They are compiled on any machine, whose LLVM knows 64-bit Arm.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from support.compiler.elementwise import kernel_of
from support.cpu import golden_kernels
from support.cpu.inner_loops import InnerLoop, inner_loops
from support.cpu.quantized_sums import QuantizedSums
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, apply, constant
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

GUIDE = Path(__file__).parents[3] / "docs" / "maintainers" / "compiler.md"
#: The version of LLVM whose code the guide counts.
_COUNTED_VERSION = 22
ARM = [target for target in TARGETS.values() if target.machine == "aarch64" and target.name != "generic"]
_IMAGE, _WEIGHTS, _RESULT = (1, 14, 14, 32), (64, 1, 1, 32), (1, 14, 14, 64)


def _floats() -> Sequence[Kernel]:
    return golden_kernels.convolved(_IMAGE, _WEIGHTS, _RESULT)


def _bytes() -> Sequence[Kernel]:
    return QuantizedSums(1, zeros=(3, 0)).convolution(_IMAGE, _WEIGHTS, _RESULT).kernels


#: The guide's rows: what is multiplied, the target, and XNNPACK's kernel for it with the numbers of
#: instructions and of products of its main loop.
ROWS: Sequence[tuple[str, Callable[[], Sequence[Kernel]], str, str, int, int]] = (
    ("floats", _floats, "aarch64", "f32-gemm-6x8 neonfma-ld128", 60, 48),
    ("relaxed floats", _floats, "aarch64fp16", "f16-gemm-6x16 neonfp16arith-ld64", 64, 48),
    ("bytes", _bytes, "aarch64", "qs8-qc8w-gemm-4x16 neon-mlal-lane-ld64", 162, 128),
    ("bytes", _bytes, "aarch64dotprod", "qs8-qc8w-gemm-4x16c4 neondot-ld128", 79, 64),
    ("bytes", _bytes, "aarch64i8mm", "qs8-qc8w-gemm-4x16c8 neoni8mm", 58, 32),
)


def _loops(kernels: Sequence[Kernel], name: str, *, is_relaxed: bool = False) -> list[InnerLoop]:
    try:
        return inner_loops(kernels, replace(TARGETS[name], is_relaxed=is_relaxed))
    except RuntimeError as error:
        pytest.skip(f"LLVM: {error}")


def _row(row: int) -> str:
    what, make, name, other, instructions, products = ROWS[row]
    loops = _loops(make(), name, is_relaxed=what.startswith("relaxed"))
    loop = max(loops, key=lambda each: each.products)
    own = len(loop.instructions), loop.products
    counts = [f"{total} | {count} | {total / count:.2f}" for total, count in (own, (instructions, products))]
    return f"| {what} | `{name}` | {counts[0]} | {other} | {counts[1]} |"


@sweep("row", range(len(ROWS)))
def test_the_guide_counts_the_instructions_of_inner_loops(row: int) -> None:
    if llvm.llvm_version_info[0] != _COUNTED_VERSION:
        pytest.skip(f"the guide counts the code of LLVM {_COUNTED_VERSION}")
    assert _row(row) in GUIDE.read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ARM, ids=lambda target: target.name)
@sweep("channels", [8, 16, 24, 64])
@sweep("size", [5, 7, 14])
@sweep("make", ["floats", "relaxed floats", "bytes"])
def test_sums_of_products_stay_in_registers(target: Target, channels: int, size: int, make: str) -> None:
    shapes = (1, size, size, 32), (channels, 1, 1, 32), (1, size, size, channels)
    kernels = (
        golden_kernels.convolved(*shapes)
        if make != "bytes"
        else QuantizedSums(1, zeros=(3, 0)).convolution(*shapes).kernels
    )
    loops = _loops(kernels, target.name, is_relaxed=make == "relaxed floats")
    loop = max(loops, key=lambda each: each.products)
    assert loop.products >= 8
    assert 10 * loop.spills < loop.products, loop.instructions
    assert not loop.scalars, loop.instructions
    # With a single vector of channels, each product has an input of its own.
    factor = 2.5 if make == "relaxed floats" and channels == 8 else 2
    assert len(loop.instructions) < factor * loop.products, loop.instructions


_TYPES = (
    Scalar.BOOL,
    Scalar.INT8,
    Scalar.UINT8,
    Scalar.INT16,
    Scalar.UINT16,
    Scalar.INT32,
    Scalar.INT64,
    Scalar.FLOAT16,
    Scalar.FLOAT32,
    Scalar.FLOAT64,
)
#: Numbers of 64 bits become floats one by one, since rounding to doubles before would round twice.
_CONVERSIONS = [
    (source, result)
    for source in _TYPES
    for result in _TYPES
    if source is not result
    and (source, result) not in {(Scalar.INT64, Scalar.FLOAT32), (Scalar.INT64, Scalar.FLOAT16)}
]


def _tanh(x: Expression) -> Expression:
    return (apply(Op.TANH, x.to(Scalar.FLOAT32) * 0.01) * 100.0).to(Scalar.INT8)


def _quotient(x: Expression) -> Expression:
    return apply(Op.FLOOR_DIVIDE, constant(100, x.type), x)


#: Functions of elements whose loops have no instruction for a single one.
_FUNCTIONS: Mapping[str, tuple[Scalar, Callable[[Expression], Expression]]] = {
    "a table of bytes": (Scalar.INT8, _tanh),
    "a quotient of bytes": (Scalar.INT8, _quotient),
    "a quotient of shorts": (Scalar.INT16, _quotient),
    "a quotient of integers": (Scalar.INT32, _quotient),
    **{
        f"{source.name} to {result.name}": (source, lambda x, result=result: x.to(result))  # type: ignore[misc]
        for source, result in _CONVERSIONS
    },
}


@pytest.mark.parametrize("target", ARM, ids=lambda target: target.name)
@sweep("name", _FUNCTIONS)
def test_functions_of_elements_do_not_take_vectors_apart(target: Target, name: str) -> None:
    kind, function = _FUNCTIONS[name]
    loops = _loops([kernel_of(function, [Value((40, 67), kind)])], target.name)
    assert loops
    for loop in loops:
        assert not loop.scalars, loop.instructions
