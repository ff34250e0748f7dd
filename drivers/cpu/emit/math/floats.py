"""Float formats with the polynomials of functions for each."""

import math

from msgspec import Struct

from neurald.drivers.cpu.emit.vector import Vector

LN2 = math.log(2)


class Format(Struct, frozen=True, kw_only=True):
    """Layout of a float type, and the polynomials for it.

    Attributes:
        integer: the integer type of the same size.
        fraction_bits: stored bits of the significand.
        bias: the bias of the exponent.
        ln2_high, ln2_low: their sum is ln 2; the first has trailing zeros, so that products with
            small integers are exact. Both are positive, so that x - 0·ln 2 keeps the sign of 0.
        smallest_exp, largest_exp: e^x is below the normal numbers below, and infinite above.
        exp: (e^r - 1 - r) / r², for |r| < 0.348.
        tanh: (tanh r - r) / r³ in r², for |r| < 0.174.
        log: (2·artanh(s) - 2·s) / s³ in s², for |s| ≤ 0.2.
        sin: (sin r - r) / r³ in r², for |r| < 0.786.
        cos: (cos r - 1 + r²/2) / r⁴ in r².
        atan: (atan a - a) / a³ in a², for 0 ≤ a ≤ `atan_end`; larger arguments are rotated by 45°.
        erf: erf(a) / a - 1 in a², for 0 ≤ a ≤ 1.
        erfc: -ln(erfc(a)), for 1 ≤ a ≤ `erfc_end`, beyond which erf is 1.
    """

    element: str
    integer: str
    fraction_bits: int
    bias: int
    ln2_high: float
    ln2_low: float
    smallest_exp: float
    largest_exp: float
    exp: tuple[float, ...]
    tanh: tuple[float, ...]
    log: tuple[float, ...]
    sin: tuple[float, ...]
    cos: tuple[float, ...]
    atan: tuple[float, ...]
    atan_end: float
    erf: tuple[float, ...]
    erfc: tuple[float, ...]
    erfc_end: float

    @property
    def magic(self) -> float:
        """Adding this to a number leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.fraction_bits

    @property
    def smallest_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FLOAT = Format(
    element="float",
    integer="i32",
    fraction_bits=23,
    bias=127,
    ln2_high=0.693145751953125,
    ln2_low=LN2 - 0.693145751953125,
    smallest_exp=-87.33654,
    largest_exp=88.72283,
    exp=(0.49999997, 0.16666542, 0.041667208, 0.0083667878, 0.001388247),
    tanh=(-0.33331263, 0.13110133),
    log=(0.66666947, 0.39957825, 0.3036057),
    sin=(-0.16666655, 0.00833216, -0.00019515204),
    cos=(0.041666646, -0.0013887315, 2.4433066e-05),
    atan=(
        -0.33333299,
        0.19998549,
        -0.14264241,
        0.10952185,
        -0.084034488,
        0.057957571,
        -0.031177824,
        0.010914595,
        -0.0017936191,
    ),
    atan_end=1.0,
    erf=(
        0.12837917,
        -0.37612626,
        0.11283585,
        -0.026853813,
        0.0051883277,
        -0.00080101937,
        7.8538607e-05,
    ),
    erfc=(
        -0.00018803705,
        1.1295784,
        0.6332199,
        0.10841855,
        -0.02520824,
        0.0042045563,
        -0.00044133532,
        2.1686763e-05,
    ),
    erfc_end=4.0,
)

DOUBLE = Format(
    element="double",
    integer="i64",
    fraction_bits=52,
    bias=1023,
    ln2_high=0.69314718036912381649,
    ln2_low=1.9082149292705877e-10,
    smallest_exp=-708.3964185322641,
    largest_exp=709.782712893384,
    exp=tuple(1 / math.factorial(k + 2) for k in range(12)),
    tanh=(
        -1 / 3,
        2 / 15,
        -17 / 315,
        62 / 2835,
        -1382 / 155925,
        21844 / 6081075,
        -929569 / 638512875,
        6404582 / 10854718875,
    ),
    log=tuple(2 / (2 * k + 3) for k in range(11)),
    sin=tuple((-1) ** (k + 1) / math.factorial(2 * k + 3) for k in range(8)),
    cos=tuple((-1) ** k / math.factorial(2 * k + 4) for k in range(8)),
    atan=tuple((-1) ** (k + 1) / (2 * k + 3) for k in range(20)),
    atan_end=math.sqrt(2) - 1,
    erf=(
        2 / math.sqrt(math.pi) - 1,
        *(2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(1, 20)),
    ),
    erfc=(
        2.333729577586041e-06,
        1.1283572754151936,
        0.6367151384557095,
        0.102516453833192,
        -0.01865363838733231,
        -0.0008529132145871168,
        0.002355291445837379,
        -0.0011074920310331076,
        0.00033680574407789926,
        -7.465691522608231e-05,
        1.225562265256673e-05,
        -1.4564066499574098e-06,
        1.1837270717172466e-07,
        -5.86344202455056e-09,
        1.3257533362102612e-10,
    ),
    erfc_end=6.0,
)

_FORMATS = {each.element: each for each in (FLOAT, DOUBLE)}


class Floats:
    """Instructions on floats of one format."""

    def __init__(self, v: Vector, element: str) -> None:
        self.v = v
        self.format = _FORMATS[element]
        self.element = element

    def number(self, value: float) -> str:
        """Returns a float constant in every lane."""
        return self.v.number(self.element, value)

    def whole(self, value: int) -> str:
        """Returns an integer constant of the float's size in every lane."""
        return self.v.number(self.format.integer, value)

    def add(self, first: str, second: str) -> str:
        """Adds floats."""
        return self.v.binary("fadd", self.element, first, second)

    def subtract(self, first: str, second: str) -> str:
        """Subtracts floats."""
        return self.v.binary("fsub", self.element, first, second)

    def multiply(self, first: str, second: str) -> str:
        """Multiplies floats."""
        return self.v.binary("fmul", self.element, first, second)

    def divide(self, first: str, second: str) -> str:
        """Divides floats."""
        return self.v.binary("fdiv", self.element, first, second)

    def fma(self, first: str, second: str, third: str) -> str:
        """Computes first × second + third; see `Vector.fma`."""
        return self.v.fma(self.element, first, second, third)

    def widened(self, x: str) -> str:
        """Converts a float to a double."""
        return self.v.cast("fpext", "float", x, "double")

    def is_(self, condition: str, first: str, second: float) -> str:
        """Compares a float with a number by a condition such as `olt`."""
        return self.v.compare(condition, self.element, first, self.number(second))

    def select(self, condition: str, first: str, second: str) -> str:
        """Selects between floats by an i1."""
        return self.v.select(condition, self.element, first, second)

    def absolute(self, x: str) -> str:
        """Returns the absolute value of a float."""
        return self.v.call("llvm.fabs", self.element, x)

    def with_sign(self, x: str, sign: str) -> str:
        """Returns a float with the sign of another."""
        return self.v.call("llvm.copysign", self.element, x, sign)

    def cut(self, x: str, low: float, high: float) -> str:
        """Clamps a float; NaN stays NaN."""
        return self.at_most(self.at_least(x, low), high)

    def at_least(self, x: str, low: float) -> str:
        """Returns the larger of a float and a number; NaN stays NaN."""
        return self.select(self.is_("olt", x, low), self.number(low), x)

    def at_most(self, x: str, high: float) -> str:
        """Returns the smaller of a float and a number; NaN stays NaN."""
        return self.select(self.is_("ogt", x, high), self.number(high), x)

    def integers(self, operation: str, first: str, second: str) -> str:
        """Writes an instruction with two integers of the float's size."""
        return self.v.binary(operation, self.format.integer, first, second)

    def to_bits(self, x: str) -> str:
        """Returns the bits of a float as an integer."""
        return self.v.bitcast(self.element, x, self.format.integer)

    def from_bits(self, x: str) -> str:
        """Returns the float with these bits."""
        return self.v.bitcast(self.format.integer, x, self.element)

    def nearest(self, x: str, factor: float) -> tuple[str, str]:
        """Returns the integer nearest to x × factor, as a float and as an integer."""
        magic = self.number(self.format.magic)
        moved = self.fma(x, self.number(factor), magic)
        bits = self.integers("sub", self.to_bits(moved), self.to_bits(magic))
        return self.subtract(moved, magic), bits

    def whole_power(self, x: str, factor: float) -> tuple[str, str]:
        """Returns the integer n nearest to x × factor as a float, and 2^n.

        The latter is 0 for the largest n for which it is below the normal numbers.
        """
        biased = self.number(self.format.magic + self.format.bias)
        moved = self.fma(x, self.number(factor), biased)
        scale = self.integers("shl", self.to_bits(moved), self.whole(self.format.fraction_bits))
        return self.subtract(moved, biased), self.from_bits(scale)

    def power_of_two(self, exponent: str) -> str:
        """Returns 2^n for an integer n, if that is a normal number."""
        biased = self.integers("add", exponent, self.whole(self.format.bias))
        return self.from_bits(self.integers("shl", biased, self.whole(self.format.fraction_bits)))

    def reduced(self, x: str) -> tuple[str, str, str]:
        """Splits x into n·ln 2 + r; returns n as a float, n as an integer, and r."""
        n, power = self.nearest(x, 1 / LN2)
        r = self.fma(n, self.number(-self.format.ln2_high), x)
        return n, power, self.fma(n, self.number(-self.format.ln2_low), r)

    def less_multiple(self, x: str, n: str, factor: float) -> str:
        """Returns x - n·ln 2 / factor, as if that had more digits if the factor is a power of 2."""
        if abs(math.frexp(factor)[0]) != 0.5:
            return self.fma(n, self.number(-LN2 / factor), x)
        r = self.fma(n, self.number(-self.format.ln2_high / factor), x)
        return self.fma(n, self.number(-self.format.ln2_low / factor), r)

    def exp_below_one(self, r: str) -> str:
        """Computes e^r - 1 for the r of `reduced`."""
        rest = self.v.polynomial(self.element, r, self.format.exp)
        return self.fma(self.multiply(r, r), rest, r)
