import re

import numpy as np
import pytest
from support.compiler.elementwise import interpreted, kernel_of
from support.compiler.random_kernels import RandomKernel
from support.cpu.native import DIFFERENT, RUNNABLE, Array, compiled, run
from support.cpu.rendered import check_rendered
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import (
    Expression,
    accumulator,
    apply,
    axis,
    constant,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Contraction,
    Convolution,
    DepthwiseConvolution,
    MatrixProduct,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.target.routine import NAME
from neurald.drivers.cpu.target.target import TARGETS, Target

_RANDOM = np.random.default_rng(11)
_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)


def _numbers(value: Value, high: int = 5) -> Array:
    low = 0 if value.type.value.startswith("u") else -high
    return _RANDOM.integers(low, high, value.shape).astype(value.type.dtype)


def _check(kernel: Kernel, inputs: dict[Value, Array], target: Target, rtol: float = 0.0) -> None:
    want = interpreted(kernel, inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(routine, inputs, target, at_start=at_start, splits=(1, 3), functions=functions)
        assert not status
        np.testing.assert_allclose(got, want, rtol=rtol)


@sweep("seed", range(24))
def test_random_kernels(seed: int) -> None:
    check_rendered(seed)


def test_equal_kernels_have_the_same_text() -> None:
    for seed in range(20):
        first, second = (render(RandomKernel(seed).kernel, RUNNABLE[0]) for _ in range(2))
        assert first.text == second.text
        assert first.declarations == second.declarations


@sweep("name", TARGETS)
def test_every_target_has_text(name: str) -> None:
    for seed in range(10):
        assert f"define void @{NAME}(ptr noalias %a0" in render(RandomKernel(seed).kernel, TARGETS[name]).text


@_TARGETS
@pytest.mark.parametrize("length", [1, 3, 17, 255, 300_001])
def test_elementwise_kernels_of_any_length(length: int, target: Target) -> None:
    first, second = Value((length,), Scalar.FLOAT32), Value((length,), Scalar.UINT8)
    at = (axis(length),)
    body = load(first, at) * 2.0 + load(second, at).to(Scalar.FLOAT32)
    kernel = Kernel(output=Value((length,), Scalar.FLOAT32), axes=at, body=body)
    _check(kernel, {value: _numbers(value) for value in (first, second)}, target)


def test_large_kernels_are_split_into_work_items() -> None:
    def work_items(count: int) -> int:
        value, at = Value((count,), Scalar.FLOAT32), (axis(count),)
        body = apply(Op.EXP, load(value, at))
        return render(
            Kernel(output=Value((count,), Scalar.FLOAT32), axes=at, body=body), RUNNABLE[0]
        ).work_items

    assert work_items(0) == 0
    assert work_items(100) == 1
    assert 1 < work_items(100_000) <= work_items(10_000_000) <= 64


def test_axes_are_joined_if_that_makes_vectors_longer() -> None:
    shape = (4, 5, 6, 7)
    value, at = Value(shape, Scalar.FLOAT32), tuple(axis(length) for length in shape)
    same = Kernel(output=Value(shape, Scalar.FLOAT32), axes=at, body=load(value, at) + 1.0)
    assert render(same, TARGETS["avx512"]).label == "64 elements at once"
    assert "udiv" not in render(same, TARGETS["avx512"]).text


@_TARGETS
def test_arrays_without_elements(target: Target) -> None:
    value, at = Value((0, 3), Scalar.FLOAT32), (axis(0), axis(3))
    routine = render(Kernel(output=Value((0, 3), Scalar.FLOAT32), axes=at, body=load(value, at)), target)
    assert routine.work_items == 0
    got, _ = run(routine, {value: np.zeros((0, 3), np.float32)}, target)
    assert got.shape == (0, 3)


@_TARGETS
def test_an_empty_reduction_is_its_identity(target: Target) -> None:
    value, at, along = Value((40, 0), Scalar.FLOAT32), (axis(40),), axis(0)
    for fold, start in ((ReductionOp.SUM, 0.0), (ReductionOp.MAXIMUM, -np.inf)):
        body = reduce(fold, (along,), load(value, (at[0], along)))
        routine = render(Kernel(output=Value((40,), Scalar.FLOAT32), axes=at, body=body), target)
        got, _ = run(routine, {value: np.zeros((40, 0), np.float32)}, target)
        np.testing.assert_array_equal(got, np.full(40, start, np.float32))


@_TARGETS
@pytest.mark.parametrize("shape", [(3, 1000), (70, 19), (300, 3)])
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.INT8, Scalar.FLOAT16])
def test_reductions_along_rows_and_columns(shape: tuple[int, int], kind: Scalar, target: Target) -> None:
    value = Value(shape, kind)
    inputs = {value: _numbers(value, 2)}
    row, column = axis(shape[0]), axis(shape[1])
    for fold in (ReductionOp.SUM, ReductionOp.MINIMUM):
        rows = reduce(fold, (column,), load(value, (row, column)))
        kernel = Kernel(output=Value(shape[:1], kind), axes=(row,), body=rows)
        _check(kernel, inputs, target)
        columns = reduce(fold, (row,), load(value, (row, column)))
        _check(Kernel(output=Value(shape[1:], kind), axes=(column,), body=columns), inputs, target)


@_TARGETS
@sweep("rows", [3, 16, 17, 30, 203])
@sweep("how", [ReductionOp.SUM, ReductionOp.PRODUCT, ReductionOp.MAXIMUM])
def test_columns_are_reduced_in_several_accumulators(how: ReductionOp, rows: int, target: Target) -> None:
    lanes = target.lanes(4)
    value, row, column = Value((rows, lanes), Scalar.FLOAT32), axis(rows), axis(lanes)
    body = reduce(how, (row,), load(value, (row, column)))
    kernel = Kernel(output=Value((lanes,), Scalar.FLOAT32), axes=(column,), body=body)
    given = _RANDOM.choice([1.0, -1.0, 2.0, 0.5], (rows, lanes)).astype(np.float32)
    if how is ReductionOp.MAXIMUM:
        given[rows // 2, 0], given[-1, 1] = np.nan, np.nan
    _check(kernel, {value: given}, target)


@_TARGETS
def test_reductions_that_do_not_depend_on_the_lanes_are_computed_once(target: Target) -> None:
    value, at, along = Value((6, 200), Scalar.FLOAT32), (axis(6), axis(200)), axis(200)
    largest = reduce(ReductionOp.MAXIMUM, (along,), load(value, (at[0], along)))
    kernel = Kernel(output=Value((6, 200), Scalar.FLOAT32), axes=at, body=load(value, at) - largest)
    _check(kernel, {value: _numbers(value, 50)}, target)


@_TARGETS
def test_functions_of_sums_along_rows_are_computed_for_several_elements(target: Target) -> None:
    """Both factors lie along the sum, whose vectors would leave the functions single elements."""
    rows, columns, terms = 6, 40, 6
    left, right = Value((rows, terms), Scalar.INT8), Value((columns, terms), Scalar.INT8)
    row, column, term = axis(rows), axis(columns), axis(terms)
    product = load(left, (row, term)).to(Scalar.INT32) * load(right, (column, term)).to(Scalar.INT32)
    total = reduce(ReductionOp.SUM, (term,), product).to(Scalar.FLOAT32)
    first, second = (apply(Op.POWER, constant(base, Scalar.FLOAT32), total * 0.1) for base in (0.9, 1.2))
    body = first + second
    kernel = Kernel(output=Value((rows, columns), Scalar.FLOAT32), axes=(row, column), body=body)
    assert re.search(r"\d+ elements at once", render(kernel, target).label)
    _check(kernel, {value: _numbers(value) for value in (left, right)}, target, rtol=1e-5)


@_TARGETS
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.UINT8, Scalar.INT16])
def test_transpositions(kind: Scalar, target: Target) -> None:
    for shape in ((33, 70), (3, 50, 20), (20, 31, 3)):
        value = Value(shape, kind)
        at = tuple(axis(length) for length in shape[::-1])
        kernel = Kernel(output=Value(shape[::-1], kind), axes=at, body=load(value, at[::-1]))
        _check(kernel, {value: _numbers(value)}, target)


@_TARGETS
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.UINT8, Scalar.FLOAT16, Scalar.INT64])
@pytest.mark.parametrize("stride", [2, 3, 4, 5, 7, 8, 9])
def test_elements_at_equal_distances(stride: int, kind: Scalar, target: Target) -> None:
    """The last element of the source is read last, where loads end with its memory."""
    value = Value((1100, stride), kind)
    planes, along = axis(stride), axis(1100)
    output = Value((stride, 1100), kind)
    kernel = Kernel(output=output, axes=(planes, along), body=load(value, (along, planes)))
    _check(kernel, {value: _numbers(value)}, target)


def test_short_distances_take_no_gather() -> None:
    """Vectors of few elements gather them, since all elements between would be loaded."""

    def gathers(stride: int, name: str) -> bool:
        # Shorter rows would be written out.
        value, at = Value((4096, stride), Scalar.FLOAT32), axis(4096)
        body = load(value, (at, constant(1, Scalar.INDEX)))
        text = render(
            Kernel(output=Value((4096,), Scalar.FLOAT32), axes=(at,), body=body), TARGETS[name]
        ).text
        return "masked.gather" in text

    found = [[gathers(stride, name) for stride in (3, 4, 5, 8, 9)] for name in ("avx512", "avx2")]
    assert found == [[False, False, False, False, True], [False, False, True, True, True]]


@_TARGETS
def test_rows_with_many_steps_are_not_written_out(target: Target) -> None:
    """LLVM takes half a minute for those of means of windows that are written as sums of slices."""
    shape = (8, 42, 54)
    first, second, given = Value(shape, Scalar.BOOL), Value(shape, Scalar.BOOL), Value(shape, Scalar.FLOAT32)
    at = plane, row, column = axis(8), axis(7), axis(9)
    places = [(plane, row * 6 + down, column * 6 + right) for down in range(6) for right in range(6)]
    zero = constant(0, Scalar.FLOAT32)
    body: Expression = zero
    for place in places:
        body = body + select(load(first, place), zero, select(load(second, place), zero, load(given, place)))
    kernel = Kernel(output=Value((8, 7, 9), Scalar.FLOAT32), axes=at, body=body)
    shuffles = len(re.findall("shufflevector", render(kernel, target).text))
    assert shuffles < 1000
    bools = {value: _RANDOM.random(shape) < 0.3 for value in (first, second)}
    _check(kernel, {**bools, given: _numbers(given)}, target)


@_TARGETS
@sweep("length", [8, 12, 16, 20])
@sweep("how", [ReductionOp.SUM, ReductionOp.MAXIMUM])
def test_short_rows_are_reduced_along_themselves(how: ReductionOp, length: int, target: Target) -> None:
    """Lanes beside each other would gather."""
    value, row, inner = Value((300, length), Scalar.FLOAT32), axis(300), axis(length)
    body = reduce(how, (inner,), load(value, (row, inner)))
    kernel = Kernel(output=Value((300,), Scalar.FLOAT32), axes=(row,), body=body)
    if how is ReductionOp.SUM or length >= 16:
        assert "gather" not in render(kernel, TARGETS["avx512"]).text
    given = _numbers(value, 100)
    if how is ReductionOp.MAXIMUM:
        given[::7, length // 2], given[::5, -1] = np.nan, -np.inf
    _check(kernel, {value: given}, target)


@_TARGETS
@pytest.mark.parametrize("shape", [(1, 4099), (5, 70), (3, 128), (2, 40)])
@pytest.mark.parametrize("kind", [Scalar.FLOAT32, Scalar.INT32, Scalar.INT8])
def test_limits_of_rows_are_found_in_one_loop(shape: tuple[int, int], kind: Scalar, target: Target) -> None:
    value, (rows, length) = Value(shape, kind), shape
    at, along = (axis(rows), axis(2)), axis(length)
    read = load(value, (at[0], along))
    folded = reduce(ReductionOp.MAXIMUM, (along,), select(at[1].equals(0), -read, read))
    body = apply(Op.MAXIMUM, folded, constant(0, kind))
    kernel = Kernel(output=Value((rows, 2), kind), axes=at, body=body)
    _check(kernel, {value: _numbers(value, high=100)}, target)
    routine = render(kernel, target)
    assert "reduced together" in routine.label
    loaded = re.findall(r" = load <", routine.text)
    # Those of whole vectors, and of the elements that are left.
    assert len(loaded) <= 2


@_TARGETS
@sweep("how", [ReductionOp.ALL, ReductionOp.ANY])
@sweep("length", [300, 4096, 5000])
def test_long_rows_of_bools(how: ReductionOp, length: int, target: Target) -> None:
    """One BOOL decides, at places in the first and the last vector and behind it."""
    value, row, column = Value((5, length), Scalar.BOOL), axis(5), axis(length)
    body = reduce(how, (column,), load(value, (row, column)))
    kernel = Kernel(output=Value((5,), Scalar.BOOL), axes=(row,), body=body)
    given = np.full(value.shape, how is ReductionOp.ALL)
    places = [0, 63, length // 2, length - 1]
    given[range(4), places] ^= True
    _check(kernel, {value: given}, target)


@_TARGETS
@sweep("kind", [Scalar.FLOAT32, Scalar.FLOAT16])
@sweep("length", [5, 17, 40, 64, 129, 300])
@sweep("hows", [(ReductionOp.MAXIMUM,), (ReductionOp.MINIMUM,), (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)])
def test_nan_is_the_extreme_of_a_row(
    hows: tuple[ReductionOp, ...], length: int, kind: Scalar, target: Target
) -> None:
    """One NaN of either sign is at each place of a row; a last row of infinities has none."""
    value, row, column = Value((2 * length + 1, length), kind), axis(2 * length + 1), axis(length)
    body: Expression = constant(0, kind)
    for how in hows:
        body = body + reduce(how, (column,), load(value, (row, column)))
    kernel = Kernel(output=Value((2 * length + 1,), kind), axes=(row,), body=body)
    given = _numbers(value)
    places = np.arange(length)
    given[2 * places, places], given[2 * places + 1, places] = np.nan, -np.nan
    given[-1] = np.inf
    _check(kernel, {value: given}, target)


@_TARGETS
def test_different_elements_are_not_reduced_together(target: Target) -> None:
    value, at, along = Value((3, 2, 64), Scalar.FLOAT32), (axis(3), axis(2)), axis(64)
    body = reduce(ReductionOp.SUM, (along,), load(value, (at[0], at[1], along)))
    kernel = Kernel(output=Value((3, 2), Scalar.FLOAT32), axes=at, body=body)
    _check(kernel, {value: _numbers(value)}, target)
    assert "together" not in render(kernel, target).label


@_TARGETS
def test_conditions_that_all_lanes_share_leave_vectors_of_bytes(target: Target) -> None:
    """A window at the border of an image reads some rows only, but all channels of these."""
    rows, channels = 9, 96
    value = Value((rows, channels), Scalar.INT8)
    at, channel, tap = axis(rows), axis(channels), axis(3)
    row = at + tap - 1
    body = reduce(ReductionOp.MAXIMUM, (tap,), load(value, (row, channel), (row >= 0) & (row < rows), -128))
    kernel = Kernel(output=Value((rows, channels), Scalar.INT8), axes=(at, channel), body=body)
    lanes, _ = render(kernel, TARGETS["avx512"]).label.split(" elements at once")
    assert int(lanes) >= 64
    _check(kernel, {value: _numbers(value, 100)}, target)


@_TARGETS
def test_failed_requirements_are_reported(target: Target) -> None:
    value, at = Value((100,), Scalar.INT32), (axis(100),)
    element = load(value, at)
    required = ((element >= 0, "not negative"), (element < 50, "less than 50"))
    kernel = Kernel(output=Value((100,), Scalar.INT32), axes=at, body=element, requirements=required)
    routine = render(kernel, target)
    good = np.arange(100, dtype=np.int32) % 50
    for place, bad, status in ((99, -1, 1), (17, 50, 2), (3, 49, 0)):
        numbers = good.copy()
        numbers[place] = bad
        assert run(routine, {value: numbers}, target)[1] == status


def _with_epilogue(contraction: Contraction) -> Kernel:
    at = tuple(axis(length) for length in contraction.output.shape)
    body = select(accumulator(contraction.output.type) < 0, 0, accumulator(contraction.output.type))
    return Kernel(
        output=Value(contraction.output.shape, contraction.output.type),
        axes=at,
        body=body,
        contraction=contraction,
    )


@_TARGETS
@pytest.mark.parametrize("kinds", [(Scalar.FLOAT32, Scalar.FLOAT32), (Scalar.UINT8, Scalar.INT32)])
def test_contractions_become_reductions(kinds: tuple[Scalar, Scalar], target: Target) -> None:
    element, total = kinds
    zero = 0 if element.is_float else 3
    image, weights = Value((2, 7, 6, 6), element), Value((8, 3, 2, 3), element)
    depthwise, left, right = Value((3, 2, 12), element), Value((3, 5, 33), element), Value((21, 33), element)
    window = {"stride": (2, 1), "padding": ((1, 1), (0, 1)), "input_zero": zero}
    contractions: list[Contraction] = [
        Convolution(
            output=Value((2, 4, 6, 8), total),
            input=image,
            weights=weights,
            groups=2,
            **window,  # type: ignore[arg-type]
        ),
        DepthwiseConvolution(
            output=Value((2, 4, 6, 12), total),
            input=image,
            weights=depthwise,
            **window,  # type: ignore[arg-type]
        ),
        MatrixProduct(output=Value((3, 5, 21), total), left=left, right=right, left_zero=zero),
    ]
    for contraction in contractions:
        _check(_with_epilogue(contraction), {each: _numbers(each) for each in contraction.inputs}, target)


def test_kernels_on_different_memory_have_the_same_text() -> None:
    def kernel() -> Kernel:
        value, at = Value((40, 9), Scalar.FLOAT32), (axis(40, "i0"), axis(9, "i1"))
        body: Expression = load(value, at) * 2.0
        node = Compute(output=Value((40, 9), Scalar.FLOAT32), axes=at, body=body)
        return Kernel(output=node.output, axes=node.axes, body=node.body)

    assert render(kernel(), RUNNABLE[0]).name == render(kernel(), RUNNABLE[0]).name


@pytest.mark.parametrize(("op", "is_prefetched"), [(Op.ABSOLUTE, False), (Op.EXP, False), (Op.SIN, True)])
def test_elements_are_prefetched_for_long_functions(op: Op, *, is_prefetched: bool) -> None:
    for count, expected in ((1 << 20, is_prefetched), (1 << 10, False)):
        kernel = kernel_of(lambda x: apply(op, x), [Value((count,), Scalar.FLOAT32)])
        assert ("prefetch" in render(kernel, TARGETS["avx512"]).text) == expected


def test_functions_that_wait_for_each_other_are_computed_in_several_registers() -> None:
    """Only if they do not overlap within one register, and if the code does not become long."""

    def chain(x: Expression, count: int) -> Expression:
        for _ in range(count):
            x = apply(Op.TANH, x)
        return x

    def beside(x: Expression) -> Expression:
        parts = [apply(Op.TANH, x * number) for number in (0.3, 0.5, 0.7, 0.9)]
        return parts[0] + parts[1] + parts[2] + parts[3]

    bodies = {1: 64, 5: 64, 20: 16}
    values = [Value((1 << 12,), Scalar.FLOAT32)]
    for count, lanes in bodies.items():
        kernel = kernel_of(lambda x, count=count: chain(x, count), values)
        assert render(kernel, TARGETS["avx512"]).label == f"{lanes} elements at once"
    assert render(kernel_of(beside, values), TARGETS["avx512"]).label == "16 elements at once"
