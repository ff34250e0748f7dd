"""Flattened kernels, and biases as initial values of accumulators."""

from support.compiler.graphs import GraphBuilder

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Expression,
    Linear,
    Load,
    load,
    maximum,
)
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.common.bias import split_bias
from neurald.drivers.cpu.kernels.common.flattened import flattened


def kernel(*, bias: bool = True, twice: bool = False) -> Kernel:
    """Returns a convolution followed by a residual addition."""
    builder = GraphBuilder()
    source, residual = builder.input(2, 5, 6, 3), builder.input(2, 5, 6, 4)
    sums = builder.convolution(source, builder.weights(4, 1, 1, 3), output=(2, 5, 6, 4))
    addend: Value = builder.weights(4) if bias else builder.weights(2, 5, 6, 4)

    def body(*at: Expression) -> Expression:
        total = load(sums, at)
        first = total + load(addend, at[-1:] if bias else at)
        return maximum(first, total if twice else 0.0) + load(residual, at)

    (found,) = fuse(builder.finish(builder.compute(sums.shape, body))).kernels
    return found


def test_offsets_only_depend_on_position_and_channel() -> None:
    table = flattened(kernel())
    assert table.shape == (60, 4)
    row, channel = table.axes
    loads = [each for each in walk(table.body) if isinstance(each, Load)]
    assert {len(each.value.shape) for each in loads} == {1, 4}
    for each in loads:
        offset = linearize(each.index, each.value.shape)
        if len(each.value.shape) == 1:
            assert offset is channel
        else:
            assert isinstance(offset, Linear)
            assert dict(offset.terms) == {row: 4, channel: 1}


def test_a_bias_is_split_off() -> None:
    table = flattened(kernel())
    rest, bias = split_bias(table)
    assert isinstance(bias, Load)
    assert bias.index == (table.axes[1],)
    users = [
        each
        for each in walk(rest.body)
        if any(isinstance(operand, AccumulatorRef) for operand in each.operands)
    ]
    assert len(users) == 1
    assert isinstance(users[0], Apply)
    assert not any(each is bias for each in walk(rest.body))


def test_an_addend_that_differs_between_positions_is_no_bias() -> None:
    table = flattened(kernel(bias=False))
    assert split_bias(table) == (table, None)


def test_a_bias_is_kept_if_the_sum_has_other_uses() -> None:
    table = flattened(kernel(twice=True))
    assert split_bias(table) == (table, None)
