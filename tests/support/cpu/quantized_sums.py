"""Quantised contractions with requantised results, for tests of specialised kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.native import RUNNABLE, run

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.analysis.single_rounding import rounded_once
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant, load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.operations.arithmetic.fixed_point import quantize_multipliers

Array = np.ndarray[Any, np.dtype[Any]]

#: Types of inputs, weights and results.
TYPES = [
    (Scalar.INT8, Scalar.INT8, Scalar.INT8),
    (Scalar.UINT8, Scalar.UINT8, Scalar.UINT8),
    (Scalar.UINT8, Scalar.INT8, Scalar.UINT8),
    (Scalar.INT8, Scalar.UINT8, Scalar.INT16),
]

#: The targets that differ most, since compiling takes long.
two_targets = pytest.mark.parametrize("target", [RUNNABLE[0], RUNNABLE[-1]], ids=lambda target: target.name)
#: Pairs of an index of `TYPES` and a target, such that each occurs with several of the other.
types_and_targets = pytest.mark.parametrize(
    ("seed", "target"),
    [
        pytest.param(seed, target, id=f"{seed}-{target.name}")
        for seed in range(len(TYPES))
        for number, target in enumerate(RUNNABLE)
        if seed % 2 == number % 2
    ],
)


def check(
    case: Case, target: Target, seed: int = 0, change: Callable[[Routine], Routine] = lambda each: each
) -> None:
    """Runs a case in a few calls, in memory next to inaccessible pages.

    Args:
        case, target: what is run, and where.
        seed: for the division into calls.
        change: returns the routine that is run in place of the generated one.
    """
    routine = routine_for(case.kernel, target)
    assert routine is not None, case.label
    routine = change(routine)
    splits = sorted(np.random.default_rng(seed).integers(0, routine.work_items + 1, 2).tolist())
    result, status = run(routine, case.arrays, target, at_start=bool(seed % 2), splits=splits)
    assert not status
    case.assert_equal(result, f"{target.name}, {routine.label}")


#: Computes a kernel's output from the sums.
Tail = Callable[[Builder, Value], Value]


class QuantizedSums:
    """Creates random cases.

    Args:
        seed: for the random numbers.
        source, weights: types of the operands.
        zeros: zero points of both; None for random ones.
        extreme: use only the smallest and largest values of the types.
        bits: of weights; None for all of their type.
        has_phases: True if quarters of the channels have no weights in the first column, the first
            row, or both, as in transposed convolutions.
    """

    def __init__(
        self,
        seed: int,
        *,
        source: Scalar = Scalar.INT8,
        weights: Scalar = Scalar.INT8,
        zeros: tuple[int, int] | None = None,
        extreme: bool = False,
        bits: int | None = None,
        has_phases: bool = False,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self._source, self._weights, self._extreme, self._bits = source, weights, extreme, bits
        self._has_phases = has_phases
        self._graph = Graph(inputs=[], outputs=[])
        self._zeros = zeros or (self._zero(source), self._zero(weights))

    def convolution(
        self, source: Shape, weights: Shape, output: Shape, tail: Tail | None = None, **window: Any
    ) -> Case:
        """Creates a convolution; see `Convolution` for the shapes."""
        return self._windowed(Builder.convolution, source, weights, output, tail, window)

    def convolution_of_computed(
        self, source: Shape, weights: Shape, output: Shape, tail: Tail | None = None, **window: Any
    ) -> Case:
        """Creates a convolution without constants; see `Convolution` for the shapes."""
        return self._windowed(Builder.convolution, source, weights, output, tail, window, are_computed=True)

    def depthwise(
        self, source: Shape, weights: Shape, output: Shape, tail: Tail | None = None, **window: Any
    ) -> Case:
        """Creates a depthwise convolution; see `DepthwiseConvolution` for the shapes."""
        return self._windowed(Builder.depthwise_convolution, source, weights, output, tail, window)

    def _windowed(
        self,
        append: Callable[..., Value],
        source: Shape,
        weights: Shape,
        output: Shape,
        tail: Tail | None,
        window: dict[str, Any],
        *,
        are_computed: bool = False,
    ) -> Case:
        graph, builder, value, filter_ = self._begin(source, weights, are_computed=are_computed)
        sums = append(
            builder,
            value,
            filter_,
            output=output,
            type=Scalar.INT32,
            input_zero=self._zeros[0],
            weights_zero=self._zeros[1],
            **window,
        )
        return self._case(graph, (tail or self.rescaled())(builder, sums))

    def product(self, left: Shape, right: Shape, tail: Tail | None = None) -> Case:
        """Creates a matrix product; see `MatrixProduct` for the shapes."""
        graph, builder, value, filter_ = self._begin(left, right)
        sums = builder.matrix_product(
            value, filter_, type=Scalar.INT32, left_zero=self._zeros[0], right_zero=self._zeros[1]
        )
        return self._case(graph, (tail or self.rescaled())(builder, sums))

    def product_of_computed(self, left: Shape, right: Shape, tail: Tail | None = None, **layout: Any) -> Case:
        """Creates a matrix product without constants; see `MatrixProduct` for shapes and layout."""
        graph, builder, first, second = self._begin(left, right, are_computed=True)
        sums = builder.matrix_product(
            first,
            second,
            type=Scalar.INT32,
            left_zero=self._zeros[0],
            right_zero=self._zeros[1],
            **layout,
        )
        return self._case(graph, (tail or self.rescaled())(builder, sums))

    def rescaled(
        self,
        *,
        per_channel: bool = True,
        type: Scalar = Scalar.INT8,  # noqa: A002 - the field's name
        zero_point: int | None = None,
        low: int | None = None,
        largest: float = 0.01,
        op: Op | None = Op.FIXED_POINT,
        has_powers: bool = False,
    ) -> Tail:
        """Creates the epilogue of quantised operations: bias, multiplier, zero point and range.

        Args:
            per_channel: whether every channel has its own multiplier.
            type: of the result.
            zero_point: of the result; None for a random one.
            low: lower limit of results; None for that of the type.
            largest: upper limit of multipliers.
            op: operation that rounds products; None to round them once.
            has_powers: whether multipliers are `largest` times powers of two.
        """
        limits = np.iinfo(type.value)

        def tail(builder: Builder, sums: Value) -> Value:
            channels = sums.shape[-1]
            count = channels if per_channel else 1
            steps = self.random.uniform(0, 9, count)
            reals = largest * 0.5 ** (np.floor(steps) if has_powers else steps)
            mantissas, exponents = quantize_multipliers(reals)
            factors = builder.constant(mantissas.astype(np.int32))
            powers = builder.constant(exponents.astype(np.int32))
            bias = builder.constant(self.random.integers(-9000, 9000, channels).astype(np.int32))
            zero = self._zero(type) if zero_point is None else zero_point

            def body(*at: Expression) -> Expression:
                total = load(sums, at).to(Scalar.INT64) + load(bias, at[-1:]).to(Scalar.INT64)
                if per_channel:
                    mantissa, exponent = load(factors, at[-1:]), load(powers, at[-1:])
                else:
                    mantissa = constant(int(mantissas[0]), Scalar.INT32)
                    exponent = constant(int(exponents[0]), Scalar.INT32)
                if op is None:
                    scaled = rounded_once(total, mantissa, exponent) + zero
                else:
                    scaled = apply(op, total, mantissa, exponent, type=Scalar.INT64) + zero
                return clamp(scaled, int(limits.min) if low is None else low, int(limits.max)).to(type)

            return builder.compute(sums.shape, body)

        return tail

    def added(self, tail: Tail, *, zeros: tuple[int, int], factors: tuple[float, float]) -> Tail:
        """Creates an epilogue that adds another quantised value to the results of `tail`.

        Args:
            tail: epilogue with one-byte results.
            zeros: zero points of the results of `tail`, which is also that of the sum, and of the
                other value.
            factors: multipliers of both, up to 1; the sum is then multiplied by 1.118.
        """
        mantissas, exponents = quantize_multipliers(np.array((*factors, 1.118)))
        numbers = [
            (constant(int(m), Scalar.INT32), constant(int(e), Scalar.INT32))
            for m, e in zip(mantissas, exponents - (0, 0, 20), strict=True)
        ]

        def total(first: Expression, second: Expression) -> Expression:
            terms = [
                apply(Op.FIXED_POINT, (byte - zero) << 20, *number, type=Scalar.INT64)
                for byte, zero, number in zip((first, second), zeros, numbers[:2], strict=True)
            ]
            scaled = apply(Op.FIXED_POINT, terms[0] + terms[1], *numbers[2], type=Scalar.INT64)
            return scaled + zeros[0]

        return self.combined(tail, total, margin=20)

    def combined(self, tail: Tail, function: Callable[..., Expression], *, margin: int = 0) -> Tail:
        """Creates an epilogue that combines the results of `tail` with another value.

        Args:
            tail: epilogue with one-byte results.
            function: computes the combination of both, INT64, before it is clamped.
            margin: how far the lower limit is from that of the type.
        """

        def result(builder: Builder, sums: Value) -> Value:
            first = tail(builder, sums)
            second = Value(first.shape, first.type)
            self._graph.inputs.append(second)
            limits = np.iinfo(first.type.value)

            def body(*at: Expression) -> Expression:
                operands = (load(each, at).to(Scalar.INT64) for each in (first, second))
                return clamp(function(*operands), int(limits.min) + margin, int(limits.max)).to(first.type)

            return builder.compute(first.shape, body)

        return result

    def _zero(self, kind: Scalar) -> int:
        limits = np.iinfo(kind.value)
        return 0 if kind is Scalar.INT16 else int(self.random.integers(limits.min, limits.max + 1))

    def _array(self, shape: Shape, kind: Scalar, bits: int | None = None) -> Array:
        limits = np.iinfo(kind.value)
        low, high = (limits.min, limits.max) if bits is None else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if self._extreme:
            chosen = self.random.choice(np.array([low, high]), shape)
        else:
            chosen = self.random.integers(low, high + 1, shape)
        return np.asarray(chosen.astype(kind.dtype))

    def _begin(
        self, source: Shape, weights: Shape, *, are_computed: bool = False
    ) -> tuple[Graph, Builder, Value, Value]:
        graph = self._graph = Graph(inputs=[Value(source, self._source)], outputs=[])
        builder = Builder(graph, lambda index: graph.inputs[index])
        if are_computed:
            graph.inputs.append(Value(weights, self._weights))
            return graph, builder, graph.inputs[0], graph.inputs[1]
        array = self._array(weights, self._weights, self._bits)
        if self._has_phases:
            quarter = weights[0] // 4
            array[quarter : 2 * quarter, :, 0] = self._zeros[1]
            array[2 * quarter :, 0] = self._zeros[1]
            array[3 * quarter :, :, 0] = self._zeros[1]
        return graph, builder, graph.inputs[0], builder.constant(array)

    def _case(self, graph: Graph, output: Value) -> Case:
        graph.outputs = [output]
        arrays = {value: self._array(value.shape, value.type) for value in graph.inputs}
        fused = fuse(graph)
        assert len(fused.kernels) == 1
        expected = evaluate_fused(fused, [arrays[value] for value in graph.inputs])[0]
        return Case(kernels=fused.kernels, arrays=arrays, expected=expected, label=f"{self._zeros=}")
