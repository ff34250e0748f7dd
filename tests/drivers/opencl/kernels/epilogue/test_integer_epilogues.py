"""Epilogues of integers equal the interpreter exactly, vectorized and element by element."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.compiler.contractions import Case, Cases
from support.compiler.graphs import GraphBuilder
from support.opencl.sources import Bench, opencl_facts
from support.tiers import one_in

from neurald.drivers.compiler.analysis.integer_ranges import RangeAnalysis
from neurald.drivers.compiler.analysis.interpreter import evaluate_fused, evaluate_node
from neurald.drivers.compiler.analysis.single_rounding import rounded_once
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, clamp, constant, load, maximum
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.dialect import memory_type
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.codegen.template import FUNCTION, resolved
from neurald.drivers.opencl.kernels.epilogue.epilogue import (
    epilogue,
    used_values,
    value4_function,
    vector4_reads,
)
from neurald.drivers.opencl.kernels.epilogue.integer_vector import IntegerVector
from neurald.drivers.opencl.kernels.epilogue.vector4_loads import Vector4Loads
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
on_device = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

_FORMS = ("convolution", "depthwise", "matrix_product")


def _as_gpu(*, is_nvidia: bool) -> DeviceFacts:
    """Returns facts for which GPU kernels are generated whose arithmetic needs no PTX; they also
    run on CPUs.
    """
    assert FACTS is not None
    facts = replace(FACTS, kind=DeviceKind.GPU, compute_units=16)
    return replace(facts, is_nvidia=True, compute_capability=(6, 0)) if is_nvidia else facts


def rescaled(op: Op | None, value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
    """Multiplies an INT64 by a quantised multiplier, rounded as `op` does, or only once."""
    if op is None:
        return rounded_once(value, mantissa, exponent)
    return apply(op, value, mantissa, exponent, type=Scalar.INT64)


class Rescaled(Cases):
    """8-bit contractions with the epilogues of quantised layers: bias, multiplier, zero point,
    limits, optionally an activation in a table, and optionally a residual.
    """

    def _finish(self, builder: Builder, sums: Value, kind: Scalar, label: str) -> Case:
        self.op = (Op.FIXED_POINT_UP, Op.FIXED_POINT, None)[self._integer(0, 3)]
        channels = sums.shape[-1]
        # Products of two inputs have no constants of channels.
        of_inputs = self._is(3)
        bias = None if of_inputs else self._value((channels,), Scalar.INT32, is_constant=True)
        mantissa = self._integer(1 << 30, 1 << 31) if of_inputs else self._factor(channels)
        exponent = self._integer(-9, -5) if of_inputs else self._exponent(channels)
        table = self._value((256,), kind, is_constant=True) if self._is(3) else None
        residual = None if self._is(2) else self._value(sums.shape, kind, is_constant=False)
        zeros = [self._zero(kind) for _ in range(3)]
        info = np.iinfo(kind.value)
        low = zeros[0] if self._is(2) else info.min

        def fixed(value: Expression, mantissa: Expression, exponent: Expression) -> Expression:
            return rescaled(self.op, value, mantissa, exponent)

        def body(*at: Expression) -> Expression:
            def of(value: Value | int) -> Expression:
                known = isinstance(value, int)
                return constant(value, Scalar.INT32) if known else load(value, at[-1:])  # type: ignore[arg-type]

            total = load(sums, at).to(Scalar.INT64)
            if bias is not None:
                total = total + load(bias, at[-1:]).to(Scalar.INT64)
            result = fixed(total, of(mantissa), of(exponent)) + zeros[0]
            result = clamp(result, max(low, info.min), info.max).to(kind)
            if table is not None:
                result = load(table, (result.to(Scalar.INT32) - int(info.min),))
            if residual is None:
                return result
            first = fixed((result.to(Scalar.INT64) - zeros[0]) << 20, of(1717986918), of(-1))
            second = (load(residual, at).to(Scalar.INT64) - zeros[1]) << 19
            total = fixed(first + second, of(1276543210), of(-18))
            return clamp(total + zeros[2], info.min, info.max).to(kind)

        self._graph.outputs = [builder.compute(sums.shape, body)]
        fused = fuse(self._graph)
        expected = evaluate_fused(fused, self._arrays)[0]
        arrays = dict(zip(self._graph.inputs, self._arrays, strict=True))
        return Case(kernels=fused.kernels, arrays=arrays, expected=expected, label=label)

    def _factor(self, channels: int) -> Value | int:
        if self._is(2):
            return self._integer(1 << 30, 1 << 31)
        array = self._random.integers(1 << 30, 1 << 31, channels).astype(np.int32)
        return Value((channels,), Scalar.INT32, array)

    def _exponent(self, channels: int) -> Value | int:
        """Returns an exponent that layers have, and sometimes another one."""
        low, high = ((-9, -5), (-9, 0), (-2, 3), (0, 2), (-31, 15))[self._integer(0, 5)]
        if self._is(2):
            return self._integer(low, high)
        array = self._random.integers(low, high, channels).astype(np.int32)
        return Value((channels,), Scalar.INT32, array)


@on_device
@pytest.mark.parametrize("kind", one_in(2, [Scalar.INT8, Scalar.UINT8]))
@pytest.mark.parametrize("form", _FORMS)
def test_quantised_layers(form: str, kind: Scalar, bench: Bench) -> None:
    """For any number of channels, with sizes as numbers and as parameters (NVIDIA)."""
    texts = ""
    for seed in range(4, 10):
        case = getattr(Rescaled(seed), form)(kind)
        sources = candidates(case.kernel, _as_gpu(is_nvidia=seed % 2 == 0), relaxed=False)
        source = sources[seed % len(sources)]
        # Not every runtime can call a function with barriers, and none but NVIDIA's runs PTX: it
        # only fetches here.
        text = source.text
        if FACTS is None or not FACTS.is_nvidia:
            text = text.replace("__attribute__((noinline))", "").replace("asm volatile", "//")
        result, _ = bench.run(replace(source, code=LazyCode.of(text)), case.arrays)
        case.assert_equal(result, source.label)
        texts += text
    assert "const int4 v1 " in texts
    assert f"neurald_saturated_{memory_type(kind)}4(" in texts


@on_device
@pytest.mark.parametrize("form", _FORMS)
def test_quantised_layers_on_cpus(form: str, bench: Bench) -> None:
    assert FACTS is not None
    for seed in range(10, 13):
        case = getattr(Rescaled(seed), form)(Scalar.INT8)
        source = candidates(case.kernel, FACTS, relaxed=False)[0]
        result, _ = bench.run(source, case.arrays)
        case.assert_equal(result, source.label)


def _constant(array: np.ndarray) -> Value:
    return Value(array.shape, Scalar.of(array.dtype), array)


@on_device
@pytest.mark.parametrize("op", one_in(2, [Op.FIXED_POINT, Op.FIXED_POINT_UP, None]))
@pytest.mark.parametrize(
    "exponents", [range(-31, 0), range(-31, 1), range(3), range(-31, 32), (0,), (-1,), (31,)], ids=str
)
def test_fixed_point(op: Op | None, exponents: Sequence[int], bench: Bench) -> None:
    """For the largest numbers, numbers around powers of two and half of them, and random ones."""
    if op is None:
        # Those that it is defined for; results have to fit in 32 bits.
        exponents = [each for each in exponents if each <= 0] or [-3]
    generator = np.random.default_rng(0)
    edges = [
        sign * (1 << power) + more
        for power in (0, 1, 7, 29, 30, 31)
        for sign in (-1, 1)
        for more in (-1, 0, 1)
    ]
    numbers = [each for each in (*edges, 0, 3, -3, 1000, -1000) if -(2**31) <= each < 2**31]
    mantissas = (0, 1, 2, 3, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, 1395864371, (1 << 31) - 1)
    rows = np.array(list(itertools.product(numbers, mantissas, exponents)), np.int64)
    others = np.stack(
        [
            generator.integers(-(2**31), 2**31, 4000) >> generator.integers(0, 28, 4000),
            generator.integers(0, 2**31, 4000),
            generator.choice(exponents, 4000),
        ],
        axis=1,
    )
    rows = np.concatenate((rows, others))
    _compare(rows[: len(rows) // 4 * 4], op, bench)
    # Small numbers, which shifts to the left leave in 32 bits.
    _compare(np.concatenate((others[:, :1] >> 30, others[:, 1:]), axis=1), op, bench)


@on_device
@pytest.mark.parametrize("addend", [-128, 0, 3, 255])
@pytest.mark.parametrize("limit", [None, 255, -129], ids=str)
def test_fixed_point_plus_a_constant(addend: int, limit: int | None, bench: Bench) -> None:
    """Also where only what is above a limit matters, with products that round halves."""
    generator = np.random.default_rng(addend + 128)
    exponents = generator.integers(-23, -1, 4096)
    halves = (2 * generator.integers(-200, 200, 4096) + 1) << -exponents
    numbers = np.concatenate(
        (
            np.clip(halves, -(2**31), 2**31 - 1)[:1024] + generator.integers(-1, 2, 1024),
            generator.integers(-(2**31), 2**31, 3072) >> generator.integers(0, 28, 3072),
        )
    )
    mantissas = generator.choice((0, 1, 1 << 30, (1 << 30) + 1, 1395864371, (1 << 31) - 1), 4096)
    rows = np.stack((np.clip(numbers, -(2**31), 2**31 - 1), mantissas, exponents), axis=1)

    def whole(value: Expression) -> Expression:
        total = value + addend
        return total if limit is None else maximum(total, limit)

    text = _compare(rows, Op.FIXED_POINT, bench, whole)
    which = "above" if limit is not None and limit >= addend else "plus"
    assert f"neurald_scaled_{which}4(" in text


def _compare(
    rows: np.ndarray,
    op: Op | None,
    bench: Bench,
    whole: Callable[[Expression], Expression] = lambda value: value,
) -> str:
    """Compares FIXED_POINT of rows of three numbers, vectorized and by the interpreter.

    Args:
        rows: the numbers.
        op: how they are rounded, see `rescaled`.
        bench: runs the kernel.
        whole: returns what is computed from the product.

    Returns:
        The text.
    """
    count = len(rows)
    values = [_constant(np.ascontiguousarray(rows[:, n]).astype(np.int32)) for n in range(3)]
    row, column = axis(1, "row"), axis(count, "column")
    first, *rest = (load(value, (column,)) for value in values)
    body = whole(rescaled(op, first.to(Scalar.INT64), *rest))
    output = Value((count,), Scalar.INT64)
    arguments = KernelArguments((output, *values))
    loads = Vector4Loads(arguments.by_value, {row: "row", column: "column"}, row, column, count)
    vector = IntegerVector(loads, RangeAnalysis())
    element = vector.stored(body)
    assert element is not None
    lines = ("  const int row = 0, column = group * 4;", *vector.lines)
    text = "\n".join((f"{FUNCTION} {{", *lines, f"  *(__global long4 *)(a0 + column) = {element};", "}", ""))
    sizes = {"length": count, **vector.sizes}
    source = Source(
        code=LazyCode.of(resolved(text, arguments.parameters, sizes, is_shared=False)),
        arguments=arguments.values,
        groups=count // 4,
        local_size=1,
    )
    result, _ = bench.run(source, {})
    node = Compute(output=output, axes=(column,), body=body)
    expected = evaluate_node(node, {value: value.constant for value in values if value.constant is not None})
    np.testing.assert_array_equal(result, expected)
    return text


def _kernel(
    zero: int = 3, mantissa: int = 1717986918, shift: int = -5, *, has_known_bias: bool = True
) -> Kernel:
    """Returns an 8-bit product of 5 x 16 and 16 x 8 elements, rescaled and added to a residual."""
    builder = GraphBuilder()
    left, right = builder.input(5, 16, type=Scalar.INT8), builder.weights(8, 16, type=Scalar.INT8)
    sums = builder.matrix_product(left, right, type=Scalar.INT32)
    residual = builder.input(5, 8, type=Scalar.INT8)
    bias = builder.weights(8, type=Scalar.INT32) if has_known_bias else builder.input(8, type=Scalar.INT32)

    def body(*at: Expression) -> Expression:
        total = load(sums, at).to(Scalar.INT64) + load(bias, at[-1:]).to(Scalar.INT64)
        numbers = (constant(each, Scalar.INT32) for each in (mantissa, shift))
        total = apply(Op.FIXED_POINT, total, *numbers, type=Scalar.INT64) + load(residual, at).to(
            Scalar.INT64
        )
        return clamp(total + zero, -128, 127).to(Scalar.INT8)

    (kernel,) = fuse(builder.finish(builder.compute(sums.shape, body))).kernels
    return kernel


def test_layers_with_different_constants_share_a_function() -> None:
    texts = set()
    for zero, mantissa, shift in ((3, 1717986918, -5), (-128, 1100000000, -9), (0, 2000000000, -7)):
        kernel = _kernel(zero, mantissa, shift)
        after = epilogue(kernel, KernelArguments((kernel.output, *used_values(kernel))), is_vector=True)
        assert after.sizes == {"length": 8, "c0": mantissa, "c1": shift, "c2": zero}
        texts.add(after.text)
        text = resolved(after.text, "", after.sizes, is_shared=False)
        assert "$" not in text
        assert f"(int4)({zero})" in text
    assert len(texts) == 1


def test_vector_loads() -> None:
    kernel = _kernel()
    assert {value.shape for value in vector4_reads(kernel)} == {(8,), (5, 8)}
    arguments = KernelArguments((kernel.output, *used_values(kernel)))
    after = epilogue(kernel, arguments, is_vector=True, is_fetched=True)
    assert "convert_int4(*(__global const char4 *)(a" in after.text
    assert after.text.count("prefetch") == 2
    assert after.has_fetch
    four = value4_function(kernel, arguments)
    assert four is not None
    assert "static inline char4 KERNEL_NAME_value4(const int4 sum," in four.text
    assert set(four.sizes) == {"c0", "c1", "c2"}


def test_values_beyond_32_bits_are_not_vectorized() -> None:
    kernel = _kernel(has_known_bias=False)
    after = epilogue(kernel, KernelArguments((kernel.output, *used_values(kernel))), is_vector=True)
    assert "neurald_fixed_point(" in after.text
    assert "neurald_high_product4" not in after.text
    assert after.sizes == {"length": 8}
    assert vector4_reads(kernel) == ()
