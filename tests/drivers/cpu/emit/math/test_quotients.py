import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.cpu.native import DIFFERENT
from support.cpu.quantization import RANGES, SCALES, quantised, samples

from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.quotients import quotient_of
from neurald.drivers.cpu.target.target import Target


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
def test_quantisation_equals_a_division(target: Target, kind: Scalar) -> None:
    for scale in SCALES[:: 1 if target is DIFFERENT[0] else 5]:
        x = samples(float(scale))
        body = [lambda value, scale=float(scale): quantised(value, scale, kind)]
        np.testing.assert_array_equal(computed(body, [x], target)[0], expected(body, [x])[0])


def test_expressions_that_do_not_match() -> None:
    x = constant(1.0, Scalar.FLOAT32) + 0.0
    rounded = apply(Op.ROUND_AWAY, x / 0.1)

    def found(value: Expression) -> bool:
        result = value.to(Scalar.INT32)
        return quotient_of(result) is not None  # type: ignore[arg-type]

    assert found(clamp(rounded, -128.0, 127.0))
    assert not found(rounded)
    assert not found(clamp(rounded, -1e6, 1e6))
    assert not found(clamp(apply(Op.FLOOR, x / 0.1), -128.0, 127.0))
    assert not found(clamp(apply(Op.ROUND_AWAY, x / -0.1), -128.0, 127.0))
    assert not found(clamp(apply(Op.ROUND_AWAY, x / x), -128.0, 127.0))
