"""Compares kernels for float contractions with the interpreted graph."""

from collections.abc import Sequence
from functools import partial

from support.compiler.contractions import Case
from support.compiler.graphs import GraphBuilder, random_array
from support.cpu.native import RUNNABLE, results

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.expression import Expression, apply, load, maximum
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: One target for each kind of code; features for integers only make no difference.
TARGETS = {(target.vector_bytes, target.registers, target.has_fma): target for target in RUNNABLE}


def check(cases: Sequence[Case], target: Target) -> list[Routine]:
    """Runs cases in a few calls each, in memory next to inaccessible pages."""
    routines = []
    for case in cases:
        routine = routine_for(case.kernel, target)
        assert routine is not None, case.label
        routines.append(routine)
    calls = [(routine, case.arrays) for case, routine in zip(cases, routines, strict=True)]
    found = results(calls, target, has_random_splits=True)
    for case, routine, result in zip(cases, routines, found, strict=True):
        case.assert_equal(result, f"{target.name}, {routine.label}")
    return routines


def finished(builder: GraphBuilder, sums: Value, label: str, *, has_function: bool = False) -> Case:
    """Adds a bias and a limit, or a function of many instructions, to sums."""
    bias = builder.weights(sums.shape[-1])

    def body(*at: Expression) -> Expression:
        total = load(sums, at) + load(bias, at[-1:])
        return total * apply(Op.TANH, total) if has_function else maximum(total, 0.0)

    graph = builder.finish(builder.compute(sums.shape, body))
    arrays = [random_array(builder.generator, value.shape, value.type) for value in graph.inputs]
    (kernel,) = fuse(graph).kernels
    return Case(
        kernels=(kernel,),
        arrays=dict(zip(graph.inputs, arrays, strict=True)),
        expected=evaluate(graph, arrays)[0],
        label=label,
    )


def windows(
    source: Shape,
    weights: Shape,
    *,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 0,
    groups: int = 1,
    has_function: bool = False,
) -> Case:
    """Creates a convolution, or a depthwise one if the weights have three dimensions."""
    builder = GraphBuilder()
    image = builder.input(*source)
    factors = builder.weights(*weights)
    kernel = weights[1:3] if len(weights) == 4 else weights[:2]
    positions = [
        (length + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
        for length, taps in zip(source[1:3], kernel, strict=True)
    ]
    convolve = (
        partial(builder.convolution, groups=groups) if len(weights) == 4 else builder.depthwise_convolution
    )
    sums = convolve(
        image,
        factors,
        output=(source[0], *positions, weights[0] if len(weights) == 4 else weights[2]),
        stride=(stride, stride),
        dilation=(dilation, dilation),
        padding=((pad, pad), (pad, pad)),
    )
    label = f"{source} * {weights}, {stride=} {dilation=} {pad=} {groups=}"
    return finished(builder, sums, label, has_function=has_function)
