import math

import numpy as np

from neurald.drivers.cpu.emit.math.piecewise_polynomial import even_pieces, pieces


def test_pieces_approximate_the_function_and_have_floats_at_their_centres() -> None:
    shapes = (
        (math.erf, 4.0, 16, 6),
        (math.erf, 4.0, 4, 9),
        (math.atan, 2.0, 16, 6),
        (lambda x: x, 3.0, 16, 6),
    )
    for function, end, count, terms in shapes:
        found = pieces(function, end, count, terms)
        assert found.centres[0] == found.starts[0] == 0
        a = np.linspace(0, end, 2001)
        part = np.rint(a * found.parts_per_one).astype(int)
        rest = a - np.array(found.centres)[part]
        total = np.polynomial.polynomial.polyval(rest, np.array(found.coefficients)[:, part], tensor=False)
        slopes = np.where(part == 0, found.slope, 0.0)
        got = np.array(found.starts)[part] + rest * (slopes + total)
        np.testing.assert_allclose(got, [function(each) for each in a], rtol=4e-8, atol=1e-12)
        assert all(start == np.float32(start) for start in (*found.starts, *found.centres))


def test_even_pieces_have_small_absolute_errors_and_exact_ends() -> None:
    step, count = 0.25, 16
    end = step * (count - 1)

    def limited(x: float) -> float:
        return 1.0 if x == end else math.erf(x)

    found = np.array(even_pieces(limited, step, count, 5))
    a = np.linspace(0, end, 2001)
    part = np.rint(a / step).astype(int)
    got = np.polynomial.polynomial.polyval(a - part * step, found[:, part], tensor=False)
    np.testing.assert_allclose(got, [math.erf(each) for each in a], rtol=0, atol=2e-7)
    assert (got[0], got[-1]) == (0, 1)
    # Coefficients do not depend on rounding errors of the processor.
    rng = np.random.default_rng(1)
    other = even_pieces(lambda x: limited(x) * (1 + float(rng.integers(-1, 2)) * 2.0**-53), step, count, 5)
    np.testing.assert_array_equal(found.astype(np.float32), np.array(other, np.float32))


def test_coefficients_do_not_depend_on_rounding_errors_of_the_processor() -> None:
    rng = np.random.default_rng(1)

    def disturbed(x: float) -> float:
        return math.erf(x) * (1 + float(rng.integers(-1, 2)) * 2.0**-53)

    for count, terms in ((16, 6), (4, 9)):
        plain, other = (pieces(function, 4.0, count, terms) for function in (math.erf, disturbed))
        for first, second in zip(plain.coefficients, other.coefficients, strict=True):
            np.testing.assert_array_equal(np.array(first, np.float32), np.array(second, np.float32))
