import numpy as np
from support.compiler.elementwise import computed, expected
from support.cpu.native import RUNNABLE
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, clamp, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.short_products import is_short_product
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import TARGETS, Target


def _product(x: Expression, y: Expression) -> Expression:
    return apply(Op.MULTIPLY, x.to(Scalar.INT32), y.to(Scalar.INT32))


@sweep("target", RUNNABLE, ids=lambda target: target.name)
def test_short_products_are_exact(target: Target) -> None:
    random = np.random.default_rng(9)
    for count in (1, 3, 4, 7, 16, 40, 200):
        byte = random.integers(0, 256, count).astype(np.uint8)
        word = random.integers(-(2**15), 2**15, count).astype(np.int16)
        byte[0], word[0] = 255, -(2**15)
        bodies = [
            _product,
            lambda x, y: _product(y, x),
            lambda x, y: _product(y, y),
            lambda x, y: _product(_product(x, x), y),
            lambda x, y: _product(x.to(Scalar.INT32) + 32512, y),
            lambda x, y: _product(x.to(Scalar.INT32) + 32513, y),
        ]
        for got, want in zip(
            computed(bodies, [byte, word], target), expected(bodies, [byte, word]), strict=True
        ):
            np.testing.assert_array_equal(got, want)


def test_which_products_are_short() -> None:
    v = Vector(Instructions(), TARGETS["avx2"], 8)

    def found(kind: Scalar, low: int, high: int) -> bool:
        at = (axis(8, "i"),)
        x, y = (load(Value((8,), each), at).to(Scalar.INT32) for each in (kind, Scalar.INT32))
        product = _product(x, clamp(y, low, high))
        return is_short_product(v, product)  # type: ignore[arg-type]

    assert found(Scalar.INT8, 0, 32767)
    assert found(Scalar.UINT8, -32768, 100)
    assert not found(Scalar.INT8, -1, 100)
    assert not found(Scalar.UINT8, 0, 32768)
    assert not found(Scalar.UINT16, 0, 100)
