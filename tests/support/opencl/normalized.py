"""Networks that normalise the rows of a product, in FLOAT16 as relaxed models do."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from support.compiler.graphs import GraphBuilder

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.product_stacking import stack_products
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.platform.precision import round_stored_only

_FLOAT, _HALF = Scalar.FLOAT32, Scalar.FLOAT16
#: How normalisations are written.
FORMS = ("layer", "factors first", "rms", "divided", "moments", "without parameters")
_EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class Network:
    """Product, a normalisation of its rows, and what reads the normalised rows.

    Attributes:
        form: one of `FORMS`.
        rows, width: of the matrix that is normalised.
        columns: of products that read it.
        products: how many products read it.
        is_added: whether the normalised rows are added to the result of another product.
        is_kept: whether the normalised rows are an output.
        scale, offset: of the numbers that are normalised.
        gain: the size of the factors of columns.
    """

    form: str = "layer"
    rows: tuple[int, ...] = (2, 5)
    width: int = 128
    columns: int = 96
    products: int = 1
    is_added: bool = False
    is_kept: bool = False
    scale: float = 1.0
    offset: float = 0.0
    gain: float = 1.0

    def graph(self) -> Graph:
        """Returns the graph, whose outputs are FLOAT32."""
        builder = GraphBuilder()
        count = int(np.prod(self.rows))
        given = builder.input(count, 32, type=_HALF)
        weights = builder.generator.standard_normal((self.width, 32)) * self.scale / 6
        matrix = self._product(builder, given, weights, (*self.rows, self.width), self.offset)
        normalised = self._normalised(builder, matrix)
        flat = builder.reshape(normalised, (count, self.width))
        projections = [
            self._product(
                builder, flat, builder.generator.standard_normal((self.columns, self.width)) / 10, None, 0.25
            )
            for _ in range(self.products)
        ]
        outputs = [builder.compute(each.shape, _wide(each)) for each in projections]
        if self.is_added:
            back = builder.generator.standard_normal((self.width, self.columns)) / 10
            added = self._product(builder, projections[0], back, (*self.rows, self.width), 0.5, normalised)
            outputs = [builder.compute(added.shape, _wide(added))]
        if self.is_kept:
            outputs.append(builder.compute(normalised.shape, _wide(normalised)))
        return builder.finish(*outputs)

    def fused(self) -> FusedGraph:
        """Returns its kernels before normalisations are folded."""
        fused = fuse(self.graph(), is_row_wise=lambda _: True, recomputes=True)
        return stack_products(round_stored_only(fused), alignment=16)

    def _product(
        self,
        builder: GraphBuilder,
        left: Value,
        weights: np.ndarray,
        shape: tuple[int, ...] | None,
        bias: float,
        added: Value | None = None,
    ) -> Value:
        sums = builder.matrix_product(left, builder.constant(weights.astype(np.float16)))
        biases = builder.constant(
            np.asarray(builder.generator.standard_normal(weights.shape[0]) * 0.1 + bias, np.float16)
        )
        plain = builder.compute(
            sums.shape, lambda m, n: (load(sums, (m, n)) + load(biases, (n,)).to(_FLOAT)).to(_HALF)
        )
        whole = plain if shape is None else builder.reshape(plain, shape)
        if added is None:
            return whole
        return builder.compute(
            whole.shape,
            lambda *at: (load(added, at).to(_FLOAT) + load(whole, at).to(_FLOAT)).to(_HALF),
        )

    def _normalised(self, builder: GraphBuilder, matrix: Value) -> Value:
        generator = builder.generator
        gains, shifts = (
            builder.constant((generator.uniform(0.5, 1.5, self.width) * size).astype(np.float16))
            for size in (self.gain, 1.0)
        )

        def element(*at: Expression) -> Expression:
            *row, column = at
            value = load(matrix, at).to(_FLOAT)
            gain, shift = load(gains, (column,)).to(_FLOAT), load(shifts, (column,)).to(_FLOAT)

            def mean(body: Callable[[Expression], Expression]) -> Expression:
                along = axis(self.width, "k")
                summed = reduce(ReductionOp.SUM, (along,), body(load(matrix, (*row, along)).to(_FLOAT)))
                return summed / float(self.width)

            average = mean(lambda each: each)
            squares = mean(lambda each: each * each)
            if self.form == "rms":
                return value * apply(Op.RSQRT, squares + _EPSILON) * gain
            if self.form == "moments":
                deviation = squares - average * average
            else:
                deviation = mean(lambda each: (each - average) * (each - average))
            if self.form == "divided":
                return (value - average) / apply(Op.SQRT, deviation + _EPSILON) * gain + shift
            inverse = apply(Op.RSQRT, deviation + _EPSILON)
            if self.form == "without parameters":
                return (value - average) * inverse
            if self.form == "factors first":
                factor = inverse * gain
                return value * factor + (shift - average * factor)
            return (value - average) * inverse * gain + shift

        return builder.compute(matrix.shape, lambda *at: element(*at).to(_HALF))


def _wide(value: Value) -> Callable[..., Expression]:
    return lambda *at: load(value, at).to(_FLOAT)
