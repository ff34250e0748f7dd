"""Sums of 32-bit products give the results of rescaled sums of bytes, for every pair of bytes."""

from collections.abc import Callable

import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import Apply, Expression, Load, axis, clamp, load, minimum
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import rescale
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.schedule.short_sums import use_short_sums, use_short_sums_of_pairs
from neurald.drivers.cpu.target.target import TARGETS, Target

_RESCALED = {Op.FIXED_POINT, Op.FIXED_POINT_UP}
_TABLES, _NO_TABLES, _WORDS = TARGETS["avx512"], TARGETS["generic"], TARGETS["avx512vbmi"]


def _kernel(function: Callable[..., Expression], *types: Scalar) -> Kernel:
    """Returns a kernel that computes a clamped function of one byte or of all pairs."""
    axes = tuple(axis(256) for _ in types)
    sources = [load(Value((256,), kind), (at,)) for kind, at in zip(types, axes, strict=True)]
    body = clamp(function(*(each.to(Scalar.INT64) for each in sources)), -128, 127).to(Scalar.INT8)
    return Kernel(output=Value((256,) * len(types), Scalar.INT8), axes=axes, body=body)


def _changed(kernel: Kernel, target: Target) -> Kernel:
    """Replaces functions of pairs of bytes and of single ones."""
    return use_short_sums(use_short_sums_of_pairs(kernel, target), target)


def _is_replaced(kernel: Kernel, target: Target = _NO_TABLES) -> bool:
    """Returns True if no rescaling is left, and checks the results."""
    changed = _changed(kernel, target)
    values = tuple(
        dict.fromkeys(each.value for each in walk(kernel.body) if hasattr(each, "index"))  # type: ignore[attr-defined]
    )
    numbers = [np.arange(256).astype(np.uint8).view(value.type.value) for value in values]
    one, other = (
        evaluate_fused(
            FusedGraph(kernels=(each,), aliases={}, inputs=values, outputs=(each.output,)), numbers
        )[0]
        for each in (kernel, changed)
    )
    np.testing.assert_array_equal(one, other)
    return not any(isinstance(each, Apply) and each.op in _RESCALED for each in walk(changed.body))


def _sum(first: float, second: float, result: float, sign: int) -> Callable[..., Expression]:
    """Returns the sum of bytes with these scales, as `quantized_sum` lowers it."""
    largest = 2 * max(first, second)

    def compute(a: Expression, b: Expression) -> Expression:
        one, other = rescale((a - 3) << 20, first / largest), rescale((b + 7) << 20, second / largest)
        total = one + other if sign > 0 else one - other
        return rescale(total, largest / ((1 << 20) * result)) - 5

    return compute


@sweep("types", [(Scalar.INT8, Scalar.INT8), (Scalar.UINT8, Scalar.UINT8)])
@sweep("sign", [1, -1])
@sweep(
    "scales",
    [
        (0.05, 0.03, 0.075),
        (0.013, 0.21, 0.2),
        (0.7, 0.001, 0.6),
        (1.0, 1.0, 1.0),
        # Half of all sums are ties.
        (0.05, 0.05, 0.1),
        (0.25, 0.5, 1.0),
    ],
)
def test_sums_and_differences(
    types: tuple[Scalar, Scalar], sign: int, scales: tuple[float, float, float]
) -> None:
    assert _is_replaced(_kernel(_sum(*scales, sign), *types))


@sweep("types", [(Scalar.INT8, Scalar.INT8), (Scalar.UINT8, Scalar.UINT8), (Scalar.INT8, Scalar.UINT8)])
@sweep("sign", [1, -1])
@sweep(
    "scales",
    [
        (0.047, 0.031, 0.03),
        (0.05, 0.0471, 0.0078),
        (0.0156, 0.047, 0.0156),
        (0.04, 0.015, 0.03),
        (0.0039, 0.0156, 0.04),
        (0.03, 0.02, 0.5),
        (0.02, 0.025, 0.03),
        (0.06, 0.1, 0.08),
        (0.05, 0.04, 0.04),
        (0.045, 0.029, 0.006),
    ],
)
def test_ties_that_rounded_multiples_decide_take_a_table(
    types: tuple[Scalar, Scalar], sign: int, scales: tuple[float, float, float]
) -> None:
    kernel = _kernel(_sum(*scales, sign), *types)
    assert _is_replaced(kernel, _TABLES)
    assert _is_replaced(kernel, _WORDS)


def _word_tables(kernel: Kernel) -> int:
    """Returns how many tables of words a kernel has for the target with such tables."""
    body = _changed(kernel, _WORDS).body
    return sum(isinstance(each, Load) and each.value.type is Scalar.INT16 for each in walk(body))


@sweep("scales", [(0.05, 0.05, 0.08), (0.1, 0.13, 0.2), (0.06, 0.1, 0.08)])
def test_ties_are_decided_by_words_where_those_are_looked_up(scales: tuple[float, float, float]) -> None:
    kernel = _kernel(_sum(*scales, 1), Scalar.INT8, Scalar.INT8)
    assert _is_replaced(kernel, _WORDS)
    assert _word_tables(kernel) == 2


def test_sums_whose_numbers_are_words_are_computed_as_words() -> None:
    kernel = _kernel(_sum(1.0, 1.0, 1.0, 1), Scalar.INT8, Scalar.INT8)
    assert _is_replaced(kernel)
    types = {each.type for each in walk(_changed(kernel, _NO_TABLES).body)}
    assert Scalar.INT32 not in types


def test_sums_that_products_compute_take_no_tables_of_words() -> None:
    kernel = _kernel(_sum(0.0471, 0.0613, 0.0833, 1), Scalar.INT8, Scalar.INT8)
    assert _is_replaced(kernel, _WORDS)
    assert not _word_tables(kernel)


def test_such_ties_remain_where_tables_are_not_in_registers() -> None:
    kernel = _kernel(_sum(0.047, 0.031, 0.03, 1), Scalar.INT8, Scalar.INT8)
    assert not _is_replaced(kernel, _NO_TABLES)


@sweep("scales", [(0.037, 0.05), (0.5, 1.0), (0.9, 0.011)])
def test_a_byte_with_another_scale(scales: tuple[float, float]) -> None:
    one, other = scales
    assert _is_replaced(_kernel(lambda a: rescale(a - 4, one / other) + 9, Scalar.INT8))


def test_the_same_byte_twice() -> None:
    assert _is_replaced(_kernel(lambda a: rescale((a << 20) + rescale(a << 20, 0.3), 2.0**-20), Scalar.INT8))


def test_products_remain() -> None:
    assert not _is_replaced(
        _kernel(lambda a, b: rescale((a - 7) * (b - 4), 0.02) + 10, Scalar.INT8, Scalar.INT8)
    )


def test_functions_that_are_not_linear_remain() -> None:
    def squared(a: Expression, b: Expression) -> Expression:
        inner = rescale(a * a, 0.25)
        return rescale(inner * b, 0.001)

    assert not _is_replaced(_kernel(squared, Scalar.INT8, Scalar.INT8))


def test_sums_of_three_numbers_remain() -> None:
    def total(a: Expression, b: Expression, c: Expression) -> Expression:
        return rescale((a + b + c) << 16, 2.0**-16 * 0.3)

    axes = tuple(axis(4) for _ in range(3))
    loads = [load(Value((4,), Scalar.INT8), (at,)).to(Scalar.INT64) for at in axes]
    body = clamp(total(*loads), -128, 127).to(Scalar.INT8)
    kernel = Kernel(output=Value((4, 4, 4), Scalar.INT8), axes=axes, body=body)
    assert _changed(kernel, _TABLES) is kernel


def test_bytes_from_floats_with_any_limit_remain() -> None:
    """A limit that is not an integer, in a kernel that has rescaled sums besides."""
    at = axis(256)
    source = load(Value((256,), Scalar.INT8), (at,))
    rescaled = rescale(source.to(Scalar.INT64) << 16, 2.0**-16 * 0.3)
    limited = minimum(rescaled.to(Scalar.FLOAT32), float("inf"))
    kernel = Kernel(output=Value((256,), Scalar.INT8), axes=(at,), body=limited.to(Scalar.INT8))
    assert _changed(kernel, _TABLES) is kernel


def test_a_byte_that_is_computed_from_the_other_one_counts_as_a_number() -> None:
    def total(a: Expression, b: Expression) -> Expression:
        first = clamp(rescale((a + b) << 16, 2.0**-16 * 0.3), -128, 127).to(Scalar.INT8)
        return rescale((first.to(Scalar.INT64) + a) << 16, 2.0**-16 * 0.3)

    # Its result is checked, whether or not it is replaced.
    _is_replaced(_kernel(total, Scalar.INT8, Scalar.INT8))


@sweep("target", [_NO_TABLES, _TABLES, _WORDS], ids=lambda target: target.name)
@sweep("scales", [(0.05, 0.03, 0.075), (0.25, 0.5, 1.0), (0.1, 0.1, 0.2)])
def test_sums_with_constant_bytes(scales: tuple[float, float, float], target: Target) -> None:
    """Operations on the constants are not computed in advance before the sum is replaced."""
    channels = np.random.default_rng(3).integers(-128, 128, 7).astype(np.int8)
    value, known = Value((256,), Scalar.INT8), Value((7,), Scalar.INT8, channels)
    axes = (axis(256), axis(7))
    total = _sum(*scales, 1)(load(value, axes[:1]).to(Scalar.INT64), load(known, axes[1:]).to(Scalar.INT64))
    kernel = Kernel(
        output=Value((256, 7), Scalar.INT8), axes=axes, body=clamp(total, -128, 127).to(Scalar.INT8)
    )
    changed = use_short_sums(use_lookup_tables(use_short_sums_of_pairs(kernel, target), target), target)
    assert not any(isinstance(each, Apply) and each.op in _RESCALED for each in walk(changed.body))
    numbers = [np.arange(256).astype(np.uint8).view(np.int8)]
    one, other = (
        evaluate_fused(
            FusedGraph(kernels=(each,), aliases={}, inputs=(value,), outputs=(each.output,)), numbers
        )[0]
        for each in (kernel, changed)
    )
    np.testing.assert_array_equal(one, other)
