from collections.abc import Callable

import numpy as np
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import (
    Expression,
    axis,
    clamp,
    index,
    load,
    select,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.target.target import TARGETS, Target

_RANDOM = np.random.default_rng(17)
_TARGETS = sweep("target", DIFFERENT, ids=lambda target: target.name)
_KINDS = (Scalar.FLOAT32, Scalar.INT8, Scalar.BOOL)
_Body = Callable[[Value, Expression, Expression], Expression]


def _kernel(shape: tuple[int, int], value: Value, body: _Body) -> Kernel:
    at = axis(shape[0], "y"), axis(shape[1], "x")
    element = body(value, *at)
    return Kernel(output=Value(shape, element.type), axes=at, body=element)


def _check(kernel: Kernel, inputs: dict[Value, Array], target: Target) -> None:
    want = interpreted(kernel, inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, _ = run(routine, inputs, target, at_start=at_start, functions=functions)
        np.testing.assert_array_equal(got, want)


def _text(kernel: Kernel) -> str:
    return render(kernel, TARGETS["avx512"]).text


#: The input shape, the output shape, and the element.
LOADS: dict[str, tuple[tuple[int, ...], tuple[int, int], _Body]] = {
    "one after another": ((9, 70), (9, 64), lambda v, y, x: load(v, (y, x + 6))),
    "the same for all": ((9, 3), (9, 64), lambda v, y, x: load(v, (y, y * 0 + 2))),
    "every other": ((9, 127), (9, 64), lambda v, y, x: load(v, (y, x * 2))),
    "every other, to the last one": ((9, 200), (9, 100), lambda v, y, x: load(v, (y, x * 2 + 1))),
    "every third": ((9, 192), (9, 64), lambda v, y, x: load(v, (y, x * 3))),
    "backwards": ((9, 64), (9, 64), lambda v, y, x: load(v, (y, index(63) - x))),
    "backwards, in rows of other lengths": ((9, 75), (9, 71), lambda v, y, x: load(v, (y, index(72) - x))),
    "every other, backwards": ((9, 200), (9, 100), lambda v, y, x: load(v, (y, index(198) - x * 2))),
    "every third, backwards": ((9, 192), (9, 64), lambda v, y, x: load(v, (y, index(191) - x * 3))),
    "each twice": ((9, 32), (9, 64), lambda v, y, x: load(v, (y, x // 2))),
    "in turns": ((9, 5), (9, 64), lambda v, y, x: load(v, (y, x % 5))),
    "columns": ((64, 9), (9, 64), lambda v, y, x: load(v, (x, y))),
    "rows that are there": (
        (7, 64),
        (9, 64),
        lambda v, y, x: load(v, (y - 1, x), (y >= 1) & (y < 8), 1),
    ),
    "columns that are there": (
        (9, 60),
        (9, 64),
        lambda v, y, x: load(v, (y, x - 2), (x >= 2) & (x < 62), 1),
    ),
    "one element that is there for some": (
        (9, 1),
        (9, 64),
        lambda v, y, x: load(v, (y, x * 0), (x >= 3) & (x < 60), 1),
    ),
    "columns that are there, every other": (
        (9, 30),
        (9, 64),
        lambda v, y, x: load(v, (y, x * 2 - 4), (x >= 2) & (x < 17), 1),
    ),
    "none": ((0, 64), (9, 64), lambda v, y, x: load(v, (y - 20, x), y >= 20, 1)),
    "fewer than lanes": ((2, 2), (9, 64), lambda v, y, x: load(v, (y, x), (y < 2) & (x < 2), 1)),
}


@_TARGETS
@sweep("name", LOADS)
def test_loads(name: str, target: Target) -> None:
    shape, result, body = LOADS[name]
    for kind in _KINDS[:3] if target is DIFFERENT[0] else _KINDS[1:2]:
        value = Value(shape, kind)
        numbers = np.asarray(_RANDOM.integers(0, 2 if kind is Scalar.BOOL else 100, shape))
        _check(_kernel(result, value, body), {value: numbers.astype(kind.dtype)}, target)


@_TARGETS
def test_indices_that_are_data(target: Target) -> None:
    indices = Value((9, 64), Scalar.INT32)
    for kind, length in (
        (Scalar.FLOAT32, 50),
        (Scalar.INT8, 50),
        (Scalar.UINT16, 50),
        (Scalar.UINT8, 3),
        (Scalar.INT8, 256),
    ):
        table = Value((length,), kind)
        inputs: dict[Value, Array] = {
            indices: _RANDOM.integers(-80, 300, indices.shape).astype(np.int32),
            table: _RANDOM.integers(0, 100, length).astype(kind.dtype),
        }

        def cut(v: Value, y: Expression, x: Expression, table: Value = table) -> Expression:
            return load(table, (clamp(load(v, (y, x)).to(Scalar.INDEX), 0, table.count - 1),))

        def guarded(v: Value, y: Expression, x: Expression, table: Value = table) -> Expression:
            place = load(v, (y, x)).to(Scalar.INDEX)
            return load(table, (place,), (place >= 0) & (place < table.count), 7)

        for body in (cut, guarded):
            _check(_kernel((9, 64), indices, body), inputs, target)


@_TARGETS
@sweep("kind", [Scalar.FLOAT32, Scalar.INT8, Scalar.INT64, Scalar.FLOAT16, Scalar.BOOL])
def test_all_lanes_choose_by_one_condition(kind: Scalar, target: Target) -> None:
    """No lanes are masked: a load of which no lane is needed takes long on some processors."""
    condition, at = Value((9, 1), Scalar.BOOL), (axis(9), axis(70))
    first, second = Value((9, 70), kind), Value((9, 70), kind)
    body = select(load(condition, (at[0], index(0))), load(first, at), load(second, at))
    kernel = Kernel(output=Value((9, 70), kind), axes=at, body=body)
    if kind is not Scalar.FLOAT16:
        # Some targets convert these with selections of their own.
        assert "select <" not in render(kernel, target).text
    inputs: dict[Value, Array] = {condition: _RANDOM.integers(0, 2, (9, 1)).astype(bool)}
    for value in (first, second):
        numbers = _RANDOM.integers(0, 2 if kind is Scalar.BOOL else 100, value.shape)
        inputs[value] = np.asarray(numbers).astype(kind.dtype)
    _check(kernel, inputs, target)


def test_consecutive_elements_are_loaded_as_vectors() -> None:
    def text(name: str) -> str:
        shape, result, body = LOADS[name]
        return _text(_kernel(result, Value(shape, Scalar.FLOAT32), body))

    names = ("one after another", "every other", "the same for all", "rows that are there")
    for name in (*names, "backwards", "every other, backwards"):
        assert "masked" not in text(name)
    assert "masked.load" in text("columns that are there")
    assert "masked.gather" in text("columns")


def test_values_of_a_row_are_loaded_outside_the_column_loop() -> None:
    value = Value((500, 500), Scalar.FLOAT32)
    text = _text(_kernel((500, 500), value, lambda v, y, x: load(v, (y, x)) + load(v, (y, y))))
    assert text.index("load float,") < text.index("load <64 x float>")
    assert text.count("= phi i64") == 2
