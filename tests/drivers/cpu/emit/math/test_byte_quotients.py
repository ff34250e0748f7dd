import numpy as np
from support.compiler.elementwise import computed, expected
from support.cpu.native import RUNNABLE
from support.cpu.quantization import SCALES, quantised, samples
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, constant
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.byte_quotients import byte_quotient_of
from neurald.drivers.cpu.target.target import TARGETS, Target


@sweep("target", [each for each in RUNNABLE if each.vector_bytes in (32, 64)])
@sweep("zero_point", [-128, 0, 127])
@sweep("kind", [Scalar.INT8, Scalar.UINT8])
def test_bytes_equal_a_division(kind: Scalar, zero_point: int, target: Target) -> None:
    if kind is Scalar.UINT8:
        zero_point += 128
    for scale, begin in ((SCALES[0], 0), (SCALES[2], -16), (SCALES[3], -37)):
        given = samples(scale)[begin:]
        body = [lambda value, scale=scale: quantised(value, scale, kind, zero_point)]
        np.testing.assert_array_equal(computed(body, [given], target)[0], expected(body, [given])[0])


def test_what_matches() -> None:
    x = constant(1.0, Scalar.FLOAT32) + 0.0

    def found(value: Expression, target: str = "avx2") -> bool:
        return byte_quotient_of(value, TARGETS[target]) is not None  # type: ignore[arg-type]

    for kind in (Scalar.INT8, Scalar.UINT8):
        for target in ("avx2", "avx512"):
            assert all(found(quantised(x, 0.1, kind, zero_point), target) for zero_point in (0, 7))
    assert not found(quantised(x, 0.1, Scalar.INT16))
    assert not found(quantised(x, -0.1, Scalar.INT8))
    assert not found(quantised(x, 0.1, Scalar.INT8), "generic")
    assert not found(quantised(x, 0.1, Scalar.INT8) + 1)
