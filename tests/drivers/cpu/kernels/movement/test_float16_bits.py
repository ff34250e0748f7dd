"""FLOAT16 that is only moved keeps all of its bits, and is not converted."""

import numpy as np
import pytest
from support.cpu.native import DIFFERENT, compiled, run

from neurald.drivers.compiler.ir.expression import Expression, axis, load, select
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.casting import cast
from neurald.drivers.cpu.kernels.movement import float16_bits
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

_SHAPE = (70, 90)
_SOURCE, _OTHER = Value(_SHAPE, Scalar.FLOAT16), Value(_SHAPE, Scalar.FLOAT16)
_FLOATS, _FLAGS = Value(_SHAPE, Scalar.FLOAT32), Value(_SHAPE, Scalar.BOOL)


def _kernel(shape: tuple[int, int], body: Expression, axes: tuple[Expression, ...]) -> Kernel:
    return Kernel(output=Value(shape, Scalar.FLOAT16), axes=axes, body=body)  # type: ignore[arg-type]


def _padded() -> Kernel:
    i, j = axis(80), axis(100)
    there = (i >= 3) & (i < 73) & (j >= 5) & (j < 95)
    return _kernel((80, 100), load(_SOURCE, (i - 3, j - 5), there, -0.0), (i, j))


def _chosen() -> Kernel:
    at = axis(70), axis(90)
    return _kernel(_SHAPE, select(load(_FLAGS, at), load(_SOURCE, at), load(_OTHER, at)), at)


def _transposed() -> Kernel:
    i, j = axis(90), axis(70)
    return _kernel((90, 70), load(_SOURCE, (j, i)), (i, j))


@pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
def test_bits_are_kept(target: Target) -> None:
    numbers = np.arange(6300, dtype=np.uint16) * 10
    source, other = (each.view(np.float16).reshape(_SHAPE) for each in (numbers, numbers[::-1].copy()))
    flags = np.random.default_rng(1).integers(0, 2, _SHAPE).astype(bool)
    padded = np.full((80, 100), -0.0, np.float16)
    padded[3:73, 5:95] = source
    chosen = np.where(flags, source.view(np.int16), other.view(np.int16)).view(np.float16)
    wanted = [padded, chosen, np.ascontiguousarray(source.T)]
    routines = [generate(kernel, target) for kernel in (_padded(), _chosen(), _transposed())]
    functions = compiled(routines, target)
    inputs = {_SOURCE: source, _OTHER: other, _FLAGS: flags}
    for routine, want in zip(routines, wanted, strict=True):
        assert not {"half", "float"} & set(routine.text.replace(",", " ").split())
        for at_start in (False, True):
            got, status = run(routine, inputs, target, at_start=at_start, functions=functions)
            assert not status
            assert got.tobytes() == want.tobytes()


def test_long_chains_of_values() -> None:
    i, j = axis(70), axis(90)
    body: Expression = load(_OTHER, (i, j))
    for number in range(3000):
        body = load(_SOURCE, (i, j), i.equals(number), body)
    kernel = _kernel(_SHAPE, body, (i, j))
    seen = []

    def generated(bits: Kernel) -> Routine:
        seen.append(bits)
        return generate(
            Kernel(output=bits.output, axes=bits.axes, body=load(bits.inputs[0], bits.axes)), DIFFERENT[0]
        )

    assert float16_bits.routine(kernel, generated) is not None
    assert {each.type for each in seen[0].inputs} == {Scalar.INT16}


def test_other_kernels_are_left_alone() -> None:
    at = axis(70), axis(90)
    first, second = load(_SOURCE, at), load(_OTHER, at)
    converted = cast(load(_FLOATS, at), Scalar.FLOAT16)
    for body in (
        first + second,
        select(first < second, first, second),
        load(_SOURCE, at, at[0] < 3, converted),
        load(_SOURCE, at, at[0] < 3, load(_OTHER, at, at[1] < 3, converted)),
        select(load(_FLAGS, at), first, load(_SOURCE, at, at[0] < 3, converted)),
    ):
        assert (
            float16_bits.routine(_kernel(_SHAPE, body, at), lambda kernel: generate(kernel, DIFFERENT[0]))
            is None
        )
