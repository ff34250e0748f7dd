"""Another storage order between kernels gives the same results with fewer gathers."""

import numpy as np
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.expression import Expression, Load, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Compute, Graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.schedule.storage_order import choose_storage_order
from neurald.drivers.cpu.target.target import TARGETS

_TARGET = TARGETS["avx512"]


def _compute(graph: Graph, shape: tuple[int, ...], body: object) -> Value:
    axes = tuple(axis(length) for length in shape)
    element: Expression = body(*axes)  # type: ignore[operator]
    output = Value(shape, element.type)
    graph.nodes.append(Compute(output=output, axes=axes, body=element))
    return output


def _transposed_softmax(heads: int, rows: int, columns: int, depth: int) -> Graph:
    """Returns a softmax over the rows of a value, viewed as (columns, heads × depth, rows)."""
    source = Value((heads, rows, columns, depth), Scalar.FLOAT32)
    graph = Graph(inputs=[source], outputs=[])

    def element(column: Expression, channel: Expression, row: Expression) -> Expression:
        return load(source, (channel // depth, row, column, channel % depth))

    def folded(fold: ReductionOp, of: object) -> Value:
        def body(column: Expression, channel: Expression) -> Expression:
            row = axis(rows, "r")
            return reduce(fold, (row,), of(column, channel, row))  # type: ignore[operator]

        return _compute(graph, (columns, heads * depth), body)

    top = folded(ReductionOp.MAXIMUM, element)

    def power(column: Expression, channel: Expression, row: Expression) -> Expression:
        return apply(Op.EXP, element(column, channel, row) - load(top, (column, channel)))

    total = folded(ReductionOp.SUM, power)

    def share(head: Expression, row: Expression, column: Expression, deep: Expression) -> Expression:
        channel = head * depth + deep
        return power(column, channel, row) / load(total, (column, channel))

    graph.outputs.append(_compute(graph, (heads, rows, columns, depth), share))
    return graph


def _gathers(kernel: Kernel) -> bool:
    loads = (each for each in walk(kernel.body) if isinstance(each, Load))
    return any(stride_along(offset_of(each), kernel.axes[-1]) not in (0, 1) for each in loads)


@sweep(("heads", "rows", "columns", "depth"), [(4, 50, 30, 8), (3, 17, 20, 4), (1, 9, 7, 8)])
def test_reductions_keep_the_order_of_their_input(heads: int, rows: int, columns: int, depth: int) -> None:
    graph = _transposed_softmax(heads, rows, columns, depth)
    before = fuse(graph)
    after = choose_storage_order(before, _TARGET)
    source = np.random.default_rng(0).standard_normal((heads, rows, columns, depth), np.float32)
    for one, other in zip(evaluate_fused(before, [source]), evaluate_fused(after, [source]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(after.kernels) == len(before.kernels) == 3
    assert heads == 1 or any(_gathers(kernel) for kernel in before.kernels)
    assert not any(_gathers(kernel) for kernel in after.kernels if kernel.output not in after.outputs)


def test_outputs_keep_their_order() -> None:
    source = Value((50, 64), Scalar.FLOAT32)
    graph = Graph(inputs=[source], outputs=[])
    graph.outputs.append(_compute(graph, (64, 50), lambda x, y: apply(Op.EXP, load(source, (y, x)))))
    fused = fuse(graph)
    assert choose_storage_order(fused, _TARGET).kernels == fused.kernels


def test_values_read_in_two_orders_keep_their_order() -> None:
    """A transposition that no reader undoes is not moved to another kernel."""
    source = Value((40, 64), Scalar.FLOAT32)
    graph = Graph(inputs=[source], outputs=[])
    turned = _compute(graph, (64, 40), lambda x, y: apply(Op.EXP, load(source, (y, x))))
    for _ in range(2):
        graph.outputs.append(
            _compute(graph, (64, 40), lambda x, y: load(turned, (x, y)) + load(turned, (63 - x, y)))
        )
    fused = fuse(graph)
    after = choose_storage_order(fused, _TARGET)
    data = np.random.default_rng(1).standard_normal((40, 64), np.float32)
    for one, other in zip(evaluate_fused(fused, [data]), evaluate_fused(after, [data]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert after.kernels[0].shape == fused.kernels[0].shape
