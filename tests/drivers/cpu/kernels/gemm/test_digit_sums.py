"""Products of a row by INT8 weights give the sums that exact arithmetic gives."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.cpu.float_kernels import check, finished
from support.cpu.native import RUNNABLE, compiled, run

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.gemm import digit_sums
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import TARGETS, Target

#: Targets with products of unsigned by signed bytes in registers of 64 bytes.
DIGIT_TARGETS = [each for each in RUNNABLE if each.has_mixed_dots and each.vector_bytes == 64]
#: Such a target, whose code need not run.
TARGET = TARGETS["avx512vnni"]

FLOATS = np.random.default_rng(5)


def weights_of(builder: GraphBuilder, columns: int, depth: int) -> Value:
    """Returns weights that are INT8 numbers times a scale for each column."""
    integers = FLOATS.integers(-127, 127, (columns, depth), np.int8, endpoint=True)
    integers[:, depth // 2] = 127
    integers[:, depth // 3] = 0
    scales = FLOATS.uniform(1e-3, 1e-2, (columns, 1)).astype(np.float32)
    value = builder.weights(columns, depth)
    value.constant = integers.astype(np.float32) * scales
    return value


def product(columns: int, depth: int, rows: int = 1) -> tuple[Routine, Value, np.ndarray]:
    """Returns the routine of a product, its input, and its weights (columns, depth)."""
    builder = GraphBuilder()
    left = builder.input(rows, depth)
    weights = weights_of(builder, columns, depth)
    graph = builder.finish(builder.matrix_product(left, weights))
    (kernel,) = fuse(graph).kernels
    assert weights.constant is not None
    routine = routine_for(kernel, TARGET)
    assert routine is not None
    return routine, left, weights.constant


def sums(target: Target, row: np.ndarray, columns: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sums of a row's products, and the weights."""
    routine, left, weights = product(columns, row.size)
    assert routine.label.endswith("by digits")
    given = {left: row.reshape(1, -1).astype(np.float32)}
    functions = compiled([routine], target)
    result, status = run(routine, given, target, splits=[1], functions=functions)
    assert not status
    return result.reshape(-1), weights


@pytest.mark.parametrize("target", DIGIT_TARGETS, ids=lambda target: target.name)
class TestSums:
    """Sums of rows on processors that have the instructions."""

    def test_kernels(self, target: Target) -> None:
        cases = []
        for has_function in (False, True):
            for depth, columns in ((192, 97), (1024, 64), (256, 80), (64, 333), (4096, 112), (48, 2000)):
                builder = GraphBuilder()
                left = builder.input(1, depth)
                total = builder.matrix_product(left, weights_of(builder, columns, depth))
                label = f"{depth} terms, {columns} columns"
                cases.append(finished(builder, total, label, has_function=has_function))
        routines = check(cases, target)
        assert all(routine.label.endswith("by digits") for routine in routines)

    @pytest.mark.parametrize("largest", [1e-3, 1.0, 3e4, 1e30, 2.0**100])
    def test_errors_are_those_of_float_sums(self, target: Target, largest: float) -> None:
        row = (FLOATS.standard_normal(768) * largest).astype(np.float32)
        found, weights = sums(target, row)
        exact = weights.astype(float) @ row.astype(float)
        scale = np.abs(weights.astype(float)) @ np.abs(row.astype(float))
        assert np.abs(found - exact).max() <= 2.0**-24 * scale.max()

    def test_large_inputs_leave_others_exact(self, target: Target) -> None:
        row = FLOATS.standard_normal(256).astype(np.float32)
        row[85] = 1000.0
        found, weights = sums(target, row)
        # The weights of this input are 0.
        assert not weights[:, 85].any()
        exact = weights.astype(float) @ row.astype(float)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-6 * np.abs(exact).max())

    @pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -3e-39])
    def test_tiny_inputs(self, target: Target, value: float) -> None:
        row = np.full(256, value, np.float32)
        found, weights = sums(target, row)
        exact = weights.astype(float) @ row.astype(float)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-35)

    def test_powers_of_two_and_the_largest_numbers(self, target: Target) -> None:
        for value in (1.0, -1.0, 2.0**-97, np.nextafter(np.float32(2), np.float32(0)), 2.0**120):
            row = np.zeros(256, np.float32)
            row[3], row[200] = value, -value
            found, weights = sums(target, row)
            exact = weights.astype(float) @ row.astype(float)
            np.testing.assert_allclose(found, exact, rtol=1e-6, atol=np.abs(exact).max() * 1e-7)

    @pytest.mark.parametrize("special", [[np.inf], [-np.inf], [np.nan], [np.inf, np.inf], [np.inf, -np.inf]])
    def test_inputs_that_are_not_finite(self, target: Target, special: list[float]) -> None:
        row = FLOATS.standard_normal(256).astype(np.float32)
        # The last ones have weights of 0 as well.
        for places in ([7, 9], [85, 86]):
            one = row.copy()
            one[places[: len(special)]] = special
            found, weights = sums(target, one)
            with np.errstate(invalid="ignore"):
                expected = (weights * one).sum(axis=1)
            np.testing.assert_array_equal(found, np.where(np.isfinite(expected), found, expected))
            assert not np.isfinite(found).any()


def test_other_products_have_no_digits() -> None:
    for columns, depth, rows in ((100, 256, 2), (100, 252, 1), (48, 1024, 1), (64, 1 << 17, 1)):
        routine, _, _ = product(columns, depth, rows)
        assert routine.arguments[2].type is Scalar.UINT8
        assert not routine.label.endswith("by digits")


def test_other_targets_have_no_digits() -> None:
    builder = GraphBuilder()
    total = builder.matrix_product(builder.input(1, 256), weights_of(builder, 100, 256))
    (kernel,) = fuse(builder.finish(total)).kernels
    found = {name: routine_for(kernel, target) for name, target in TARGETS.items()}
    names = {name for name, routine in found.items() if routine is not None and "digits" in routine.label}
    assert names == {"avx512vnni", "avx512vbmi", "avx512fp16", "amx"}


def test_sums_of_digits_fit_in_words() -> None:
    # Digits are at least -128, and biased weights at most 255.
    assert digit_sums._MAX_TERMS * 128 * 255 < 1 << 31
