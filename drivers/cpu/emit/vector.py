"""Instructions on vectors of one width or on scalars, which differ only in type names."""

import math
import struct
from collections.abc import Sequence
from functools import cache

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.op import Number
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.target.target import Target

#: Type suffixes of intrinsics.
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}
_FLOATS = frozenset(("half", "float", "double"))
_FROM_INTEGERS, _TO_INTEGERS = frozenset(("sitofp", "uitofp")), frozenset(("fptosi", "fptoui"))
_ARM = "aarch64"
_SINGLE, _DOUBLE, _BITS = struct.Struct("<f"), struct.Struct("<d"), struct.Struct("<Q")


def literal(element: str, value: Number) -> str:
    """Returns a number as an LLVM literal without its type.

    Args:
        element: the type: i1 to i64, float or double.
        value: is rounded to that type.
    """
    if element == "i1":
        return "true" if value else "false"
    if element not in _FLOATS:
        return str(int(value))
    number = float(value)
    if element == "float" and math.isfinite(number):
        try:
            (number,) = _SINGLE.unpack(_SINGLE.pack(number))
        except OverflowError:
            number = math.copysign(math.inf, number)
    if math.isnan(number):
        return "0x7FF8000000000000"
    return f"0x{_BITS.unpack(_DOUBLE.pack(number))[0]:016X}"


def vector_type(element: str, lanes: int) -> str:
    """Returns the type of a vector, or the element type for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def _intrinsic(intrinsic: str, element: str, lanes: int, count: int, flags: str) -> tuple[str, str, str]:
    """Returns the type, name and declaration of an intrinsic; see `Vector.call`."""
    kind, suffix = vector_type(element, lanes), SUFFIXES.get(element, element)
    name = f"@{intrinsic}.{suffix if lanes == 1 else f'v{lanes}{suffix}'}"
    flag_types = "".join(f", {each.split()[0]}" for each in flags.split(", ")[1:])
    return kind, name, f"declare {kind} {name}({', '.join([kind] * count)}{flag_types})"


def _known(operation: str, first: str, second: str) -> str | None:
    """Simplifies an index operation to a number or one of its operands, if possible."""
    if operation not in ("add", "sub", "mul"):
        return None
    if first.startswith("%"):
        return first if second == ("1" if operation == "mul" else "0") else None
    if second.startswith("%"):
        return second if operation != "sub" and first == ("1" if operation == "mul" else "0") else None
    one, other = int(first), int(second)
    return str(one * other if operation == "mul" else one + other if operation == "add" else one - other)


class Vector:
    """Writes instructions for one vector width.

    Values are names or literals without types. Element types are LLVM's: i1, i8, i16, i32, i64,
    half, float, double.

    Args:
        code: receives the instructions.
        target: the target of the code.
        lanes: number of elements of a value.
    """

    def __init__(self, code: Instructions, target: Target, lanes: int) -> None:
        self.code = code
        self.target = target
        self.lanes = lanes

    def type(self, element: str) -> str:
        """Returns the type of a value."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def number(self, element: str, value: Number) -> str:
        """Returns a constant with `value` in every lane."""
        if isinstance(value, Extent):
            name = str(value) if element == "i64" else self.code.value(f"trunc i64 {value} to {element}")
            return self.splat(element, name)
        text = literal(element, value)
        return text if self.lanes == 1 else f"splat ({element} {text})"

    def numbers(self, element: str, values: Sequence[Number]) -> str:
        """Returns a constant with the given lanes."""
        if self.lanes == 1:
            return literal(element, values[0])
        return f"<{', '.join(f'{element} {literal(element, each)}' for each in values)}>"

    def splat(self, element: str, name: str) -> str:
        """Broadcasts a scalar to every lane."""
        if self.lanes == 1:
            return name
        if not name.startswith("%"):
            return f"splat ({element} {name})"
        kind = self.type(element)
        first = self.code.value(f"insertelement {kind} poison, {element} {name}, i64 0")
        return self.code.value(
            f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def binary(self, operation: str, element: str, first: str, second: str) -> str:
        """Writes an instruction with two operands of one type, such as `add` or `fmul`."""
        known = _known(operation, first, second) if element == "i64" and self.lanes == 1 else None
        return known or self.code.value(f"{operation} {self.type(element)} {first}, {second}")

    def negate(self, element: str, value: str) -> str:
        """Negates a float."""
        return self.code.value(f"fneg {self.type(element)} {value}")

    def compare(self, condition: str, element: str, first: str, second: str) -> str:
        """Compares by a condition such as `slt` or `oeq`; the result is i1."""
        operation = "fcmp" if element in _FLOATS else "icmp"
        return self.binary(f"{operation} {condition}", element, first, second)

    def select(self, condition: str, element: str, first: str, second: str) -> str:
        """Selects `first` where an i1 is true, else `second`."""
        kind = self.type(element)
        return self.code.value(f"select {self.type('i1')} {condition}, {kind} {first}, {kind} {second}")

    def cast(self, operation: str, source: str, value: str, element: str) -> str:
        """Writes a conversion such as `sext` or `fptosi`."""
        if self.lanes > 1 and self.target.machine == _ARM:
            if operation in _FROM_INTEGERS and element == "double" and source != "i64":
                # LLVM would take the vector apart.
                value = self.cast("sext" if operation == "sitofp" else "zext", source, value, "i64")
                source = "i64"
            elif operation in _TO_INTEGERS and source == "double" and element != "i64":
                # LLVM would merge bounds of the result into the conversion, element by element.
                return self.cast("trunc", "i64", self.cast(operation, source, value, "i64"), element)
        return self.code.value(f"{operation} {self.type(source)} {value} to {self.type(element)}")

    def bitcast(self, source: str, value: str, element: str) -> str:
        """Reinterprets the bits as another type."""
        return self.cast("bitcast", source, value, element)

    def call(self, intrinsic: str, element: str, *values: str, flags: str = "") -> str:
        """Calls an intrinsic whose operands and result have one type.

        Args:
            intrinsic: name such as `llvm.sqrt`, without the type suffix.
            element: the type.
            values: the operands.
            flags: further typed operands, such as `, i1 false`.
        """
        kind, name, declaration = _intrinsic(intrinsic, element, self.lanes, len(values), flags)
        self.code.declarations.add(declaration)
        return self.code.value(
            f"call {kind} {name}({', '.join([f'{kind} {each}' for each in values])}{flags})"
        )

    def fma(self, element: str, first: str, second: str, third: str) -> str:
        """Computes first × second + third, rounded once if the processor has FMA, else twice."""
        return self.call("llvm.fmuladd", element, first, second, third)

    def polynomial(self, element: str, x: str, coefficients: Sequence[float]) -> str:
        """Evaluates c0 + c1·x + c2·x² + …."""
        total = self.number(element, coefficients[-1])
        for each in reversed(coefficients[:-1]):
            total = self.fma(element, total, x, self.number(element, each))
        return total

    def parts(self, element: str, value: str, length: int) -> list[str]:
        """Splits a value into parts of `length` lanes."""
        if self.lanes == length or value.startswith("splat"):
            return [value] * (self.lanes // length)
        kind, parts = self.type(element), []
        for first in range(0, self.lanes, length):
            lanes = ", ".join(f"i32 {first + lane}" for lane in range(length))
            parts.append(
                self.code.value(f"shufflevector {kind} {value}, {kind} poison, <{length} x i32> <{lanes}>")
            )
        return parts

    def joined(self, element: str, parts: Sequence[str]) -> str:
        """Concatenates parts of equal length; their number is a power of two."""
        while len(parts) > 1:
            length = self.lanes // len(parts)
            kind, lanes = f"<{length} x {element}>", ", ".join(f"i32 {lane}" for lane in range(2 * length))
            parts = [
                self.code.value(f"shufflevector {kind} {low}, {kind} {high}, <{2 * length} x i32> <{lanes}>")
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def any_lane(self, condition: str) -> str:
        """Returns a scalar i1 that is true if any lane is."""
        return self._over_lanes("or", condition)

    def all_lanes(self, condition: str) -> str:
        """Returns a scalar i1 that is true if all lanes are."""
        return self._over_lanes("and", condition)

    def _over_lanes(self, operation: str, condition: str) -> str:
        if self.lanes == 1:
            return condition
        name = f"@llvm.vector.reduce.{operation}.v{self.lanes}i1"
        self.code.declarations.add(f"declare i1 {name}({self.type('i1')})")
        return self.code.value(f"call i1 {name}({self.type('i1')} {condition})")


def first_lanes(v: Vector, count: int) -> str:
    """Returns an i1 per lane that is true for the first `count` lanes."""
    if not isinstance(count, Extent):
        return v.numbers("i1", [lane < count for lane in range(v.lanes)])
    return v.compare("slt", "i32", v.numbers("i32", range(v.lanes)), v.number("i32", count))
