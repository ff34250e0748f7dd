"""Properties of kernels."""

from support.compiler.graphs import GraphBuilder

from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce
from neurald.drivers.compiler.ir.kernel import Kernel, element_count, op_cost
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse

SOURCE = Value((4, 6), Scalar.FLOAT32)


def kernel(body: Expression, *axes: Expression) -> Kernel:
    shape = tuple(each.high + 1 for each in axes)
    return Kernel(output=Value(shape, Scalar.FLOAT32), axes=axes, body=body)  # type: ignore[arg-type]


def test_inputs_are_unique_and_those_of_the_contraction_come_first() -> None:
    builder = GraphBuilder()
    left, weights = builder.input(4, 5), builder.weights(4, 5)
    product = builder.matrix_product(left, weights)
    end = builder.compute(
        (4, 4), lambda i, j: load(product, (i, j)) + load(left, (j, i)) * load(left, (i, j))
    )
    (found,) = fuse(builder.finish(end)).kernels
    assert found.inputs == (left, weights)
    assert found.shape == (4, 4)


def test_values_of_requirements_are_inputs() -> None:
    builder = GraphBuilder()
    source, other = builder.input(4), builder.input(4)
    end = builder.compute(
        (4,), lambda i: load(source, (i,)), lambda i: [(load(other, (i,)) < 1.0, "too large")]
    )
    (found,) = fuse(builder.finish(end)).kernels
    assert found.inputs == (source, other)
    assert found.aliased_input is None


def test_row_axes_are_those_that_reductions_depend_on() -> None:
    i, j, along = axis(4), axis(6), axis(6)
    total = reduce(ReductionOp.SUM, (along,), load(SOURCE, (i, along)))
    assert kernel(load(SOURCE, (i, j)) / total, i, j).row_axes == 1
    assert kernel(load(SOURCE, (i, j)), i, j).row_axes is None
    # Rows of one element have nothing to share.
    assert kernel(total, i).row_axes is None
    every = reduce(ReductionOp.SUM, (axis(4), along), load(SOURCE, (i * 0, along)))
    assert kernel(load(SOURCE, (i, j)) / every, i, j).row_axes == 0


def test_op_costs_and_element_counts() -> None:
    assert op_cost(Op.ADD) == 1
    assert op_cost(Op.ADD) < op_cost(Op.DIVIDE) < op_cost(Op.EXP)
    assert element_count((2, 3)) == 6
    assert element_count(()) == 1
