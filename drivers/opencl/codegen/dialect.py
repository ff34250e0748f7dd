"""Table of OpenCL C's spellings of types, constants and operations."""

import math
import re

from neurald.drivers.compiler.ir.expression import Apply, Constant
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.op import EXACT_ON_FLOAT16, Number, Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.support.kernel_file import file_content

_MEMORY_TYPES = {
    Scalar.BOOL: "uchar",
    Scalar.INT8: "char",
    Scalar.UINT8: "uchar",
    Scalar.INT16: "short",
    Scalar.UINT16: "ushort",
    Scalar.INT32: "int",
    Scalar.UINT32: "uint",
    Scalar.INT64: "long",
    Scalar.UINT64: "ulong",
    Scalar.FLOAT16: "half",
    Scalar.FLOAT32: "float",
    Scalar.FLOAT64: "double",
}
#: FLOAT16 is computed as floats with float16 values, since not every device has its arithmetic.
_REGISTER_TYPES = {**_MEMORY_TYPES, Scalar.BOOL: "int", Scalar.FLOAT16: "float", Scalar.INDEX: "int"}


def multiply_add(kind: str, total: str, left: str, right: str) -> str:
    """Returns the statement that adds a product to an accumulator.

    Devices may fuse the multiplication and addition of floats, which rounds only once.

    Args:
        kind: `float` or `int`, whatever the width.
        total, left, right: texts of the same type.
    """
    if kind == "float":
        return f"{total} = mad({left}, {right}, {total});"
    return f"{total} += {left} * {right};"


_FUNCTION = re.compile(r"^static inline \w+ (\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
#: Helper functions by name; a program contains those that it calls.
_FUNCTIONS = {found[1]: found[0] for found in _FUNCTION.finditer(file_content(__name__, "functions.cl"))}

#: Image read functions and the types of texels. Narrow elements are widened.
_TEXELS = {
    Scalar.INT8: ("read_imagei", "int4"),
    Scalar.UINT8: ("read_imageui", "uint4"),
    Scalar.INT16: ("read_imagei", "int4"),
    Scalar.UINT16: ("read_imageui", "uint4"),
    Scalar.INT32: ("read_imagei", "int4"),
    Scalar.UINT32: ("read_imageui", "uint4"),
    Scalar.FLOAT16: ("read_imagef", "float4"),
    Scalar.FLOAT32: ("read_imagef", "float4"),
}


def functions_for(text: str) -> str:
    """Returns the dialect's helper functions that a text calls, and those that they call."""
    found: list[str] = []
    # Functions only call earlier ones.
    for name, function in reversed(_FUNCTIONS.items()):
        if f"{name}(" in text or any(f"{name}(" in other for other in found):
            found.insert(0, function)
    return "".join(found)


def memory_type(kind: Scalar) -> str:
    """Returns the C type of an element in memory."""
    return _MEMORY_TYPES[kind]


def register_type(kind: Scalar) -> str:
    """Returns the C type of a number in a register."""
    return _REGISTER_TYPES[kind]


def constant_text(value: Number, kind: Scalar) -> str:
    """Returns the text of a constant; that of an extent is its name."""
    if isinstance(value, Extent):
        return f"(({register_type(kind)}){value})"
    if kind.is_float:
        suffix = "" if kind is Scalar.FLOAT64 else "f"
        number = float(value)
        if math.isnan(number):
            return "NAN"
        if math.isinf(number):
            return "INFINITY" if number > 0 else "(-INFINITY)"
        if number == int(number) and abs(number) < 1e6:
            return (
                f"{number!r}{suffix}"
                if number >= 0 and math.copysign(1, number) > 0
                else f"({number!r}{suffix})"
            )
        text = f"{number.hex()}{suffix}"
        return f"({text})" if number < 0 else text
    whole = int(value)
    if kind is Scalar.INT64:
        return (
            "(-9223372036854775807L - 1L)"
            if whole == -(2**63)
            else f"({whole}L)"
            if whole < 0
            else f"{whole}L"
        )
    if kind is Scalar.UINT64:
        return f"{whole}UL"
    if kind is Scalar.UINT32:
        return f"{whole}u"
    if whole == -(2**31):
        return "(-2147483647 - 1)"
    return f"({whole})" if whole < 0 else str(whole)


def load_text(pointer: str, place: str, kind: Scalar) -> str:
    """Returns the text that loads the element at an index."""
    if kind is Scalar.FLOAT16:
        return f"vload_half({place}, {pointer})"
    if kind is Scalar.BOOL:
        return f"({pointer}[{place}] != 0)"
    return f"{pointer}[{place}]"


def load4_text(pointer: str, place: str, kind: Scalar, space: str = "__global") -> str:
    """Returns the text that loads four elements from an aligned index.

    FLOAT16 becomes `float4`; other types keep their stored form.
    """
    return widened4_text(raw4_text(pointer, place, kind, space), kind)


def raw4_text(pointer: str, place: str, kind: Scalar, space: str = "__global") -> str:
    """Returns the text that loads four elements from an aligned index as they are stored."""
    return f"*({space} const {raw4_type(kind)} *)({pointer} + {place})"


def raw4_type(kind: Scalar) -> str:
    """Returns the type of four elements as they are stored."""
    return "uint2" if kind is Scalar.FLOAT16 else f"{memory_type(kind)}4"


def widened4_text(raw: str, kind: Scalar) -> str:
    """Returns the text of such elements as `load4_text` returns them."""
    return f"neurald_float4_of_halves({raw})" if kind is Scalar.FLOAT16 else raw


def has_texels(kind: Scalar) -> bool:
    """Returns True if images of this element type exist."""
    return kind in _TEXELS


def texel_text(image: str, texel: str, kind: Scalar) -> str:
    """Returns the text that reads the four elements of a texel as a `texel_vector`."""
    return f"{_TEXELS[kind][0]}({image}, {texel})"


def texel_vector(kind: Scalar) -> str:
    """Returns the register type of a texel with these elements."""
    return _TEXELS[kind][1]


def store_text(pointer: str, place: str, value: str, kind: Scalar) -> str:
    """Returns the statement that stores an element."""
    if kind is Scalar.FLOAT16:
        return f"vstore_half_rte({value}, {place}, {pointer});"
    return f"{pointer}[{place}] = {value};"


_UNSIGNED = {Scalar.INT32: "uint", Scalar.INT64: "ulong", Scalar.INDEX: "uint"}
_INFIX = {
    Op.ADD: "+",
    Op.SUBTRACT: "-",
    Op.MULTIPLY: "*",
    Op.EQUAL: "==",
    Op.NOT_EQUAL: "!=",
    Op.LESS: "<",
    Op.LESS_EQUAL: "<=",
    Op.AND: "&",
    Op.OR: "|",
    Op.XOR: "^",
}
_CALLS = {
    Op.SQRT: "sqrt",
    Op.EXP: "exp",
    Op.EXPM1: "expm1",
    Op.LOG: "log",
    Op.LOG1P: "log1p",
    Op.SIN: "sin",
    Op.COS: "cos",
    Op.TAN: "tan",
    Op.TANH: "tanh",
    Op.ERF: "erf",
    Op.FLOOR: "floor",
    Op.CEIL: "ceil",
    Op.ROUND_EVEN: "rint",
    Op.ROUND_AWAY: "round",
    Op.ATAN2: "atan2",
}


def apply_text(expression: Apply, arguments: list[str]) -> str:
    """Returns the text of an operation on operand texts, each a name or in parentheses."""
    kind, op = expression.type, expression.op
    text = _applied(expression, arguments)
    if kind in (Scalar.INT8, Scalar.UINT8, Scalar.INT16, Scalar.UINT16) and op is not Op.SELECT:
        return f"({register_type(kind)})({text})"
    if kind is Scalar.FLOAT16 and op not in EXACT_ON_FLOAT16:
        return f"neurald_half({text})"
    return text


def _applied(expression: Apply, arguments: list[str]) -> str:
    kind, op = expression.type, expression.op
    first = arguments[0]
    second = arguments[1] if len(arguments) > 1 else ""
    source = expression.arguments[0].type
    if op in (Op.AND, Op.OR) and kind is Scalar.BOOL:
        return f"{first} {'&&' if op is Op.AND else '||'} {second}"
    if op in (Op.ADD, Op.SUBTRACT, Op.MULTIPLY) and kind in (Scalar.INT32, Scalar.INT64):
        unsigned = _UNSIGNED[kind]
        return f"({register_type(kind)})(({unsigned}){first} {_INFIX[op]} ({unsigned}){second})"
    if op in _INFIX:
        return f"{first} {_INFIX[op]} {second}"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(arguments)})"
    if op is Op.DIVIDE:
        return f"{first} / {second}"
    if op in (Op.FLOOR_DIVIDE, Op.MODULO):
        return _floor(expression, first, second)
    if op is Op.TRUNCATE_DIVIDE:
        return f"{first} / {second}"
    if op in (Op.MINIMUM, Op.MAXIMUM):
        return _extreme(kind, first, second, is_minimum=op is Op.MINIMUM)
    if op is Op.POWER:
        return (
            f"pow({first}, {second})"
            if kind.is_float
            else f"({register_type(kind)})neurald_power({first}, {second})"
        )
    if op is Op.SHIFT_LEFT:
        wide = "ulong" if kind in (Scalar.INT64, Scalar.UINT64) else "uint"
        return f"({register_type(kind)})(({wide}){first} << {second})"
    if op is Op.SHIFT_RIGHT:
        return f"{first} >> {second}"
    if op is Op.NEGATE:
        return f"-{first}" if kind.is_float else f"({register_type(kind)})(0 - {first})"
    if op is Op.ABSOLUTE:
        return (
            f"fabs({first})"
            if kind.is_float
            else f"({register_type(kind)})({first} < 0 ? 0 - {first} : {first})"
        )
    if op is Op.NOT:
        return f"!{first}" if kind is Scalar.BOOL else f"~{first}"
    if op is Op.RSQRT:
        return f"1.0f / sqrt({first})"
    if op is Op.LOGISTIC:
        return f"1.0f / (1.0f + exp(-{first}))"
    if op is Op.SIGN:
        return f"({register_type(kind)}){_sign(kind)}({first})"
    if op is Op.IS_NAN:
        return f"isnan({first})"
    if op is Op.CONVERT:
        return _converted(first, source, kind)
    if op is Op.REINTERPRET:
        return _reinterpreted(first, source, kind)
    if op is Op.SELECT:
        return f"{first} ? {second} : {arguments[2]}"
    assert op in (Op.FIXED_POINT, Op.FIXED_POINT_UP)  # noqa: S101 - the only remaining operations
    return f"neurald_fixed_point({first}, {second}, {arguments[2]}, {int(op is Op.FIXED_POINT_UP)})"


def _extreme(kind: Scalar, first: str, second: str, *, is_minimum: bool) -> str:
    """Returns the text of a minimum or maximum.

    Each operand appears only once, because its text may be long.
    """
    name = "min" if is_minimum else "max"
    if kind.is_float:
        return f"neurald_{name}{'_double' if kind is Scalar.FLOAT64 else ''}({first}, {second})"
    return f"{name}(({register_type(kind)}){first}, ({register_type(kind)}){second})"


def _sign(kind: Scalar) -> str:
    """Returns the name of the function that returns a number's sign."""
    if kind.is_float:
        return "neurald_sign"
    # Mesa (22.3) gets the signs of numbers wrong that were widened to 64 bits.
    is_wide = kind in (Scalar.INT64, Scalar.UINT64, Scalar.UINT32)
    return "neurald_sign_long" if is_wide else "neurald_sign_int"


def _floor(expression: Apply, first: str, second: str) -> str:
    kind, is_division = expression.type, expression.op is Op.FLOOR_DIVIDE
    if kind.is_float:
        if is_division and kind is Scalar.FLOAT64:
            return f"floor({first} / {second})"
        return f"neurald_floor_{'div' if is_division else 'mod'}_float({first}, {second})"
    is_unsigned = kind.value.startswith("u")
    if kind is Scalar.INDEX:
        divisor = expression.arguments[1]
        is_unsigned = expression.arguments[0].low >= 0 and isinstance(divisor, Constant)
    if is_unsigned:
        return f"{first} {'/' if is_division else '%'} {second}"
    function = "neurald_floor_div" if is_division else "neurald_floor_mod"
    return f"{function}_long({first}, {second})" if kind is Scalar.INT64 else f"{function}({first}, {second})"


def _reinterpreted(text: str, source: Scalar, kind: Scalar) -> str:
    """Returns the text that reinterprets the bits of a number.

    FLOAT16 values are floats in registers, so their bits are converted through memory.
    """
    if source is Scalar.FLOAT16:
        text = f"neurald_half_bits({text})"
    if kind is Scalar.FLOAT16:
        return f"neurald_half_of_bits({text})"
    return f"as_{register_type(kind)}({text})"


def _is_nan_lost(source: Scalar, kind: Scalar) -> bool:
    """Returns True if some compiler's saturating conversion does not convert NaN to 0.

    NVIDIA's conversions do not if either type has 64 bits, and Mesa's (22.3) to 32 bits.
    """
    return source is Scalar.FLOAT64 or register_type(kind) in ("int", "uint", "long", "ulong")


def _converted(text: str, source: Scalar, kind: Scalar) -> str:
    if kind is Scalar.BOOL:
        return f"{text} != 0"
    if kind is Scalar.FLOAT16:
        # Like every result of that type, it is rounded to float16 unless it is stored as one
        # immediately.
        return f"(float){text}"
    if source.is_float and kind.is_integer:
        if _is_nan_lost(source, kind):
            return f"neurald_{register_type(kind)}_of_{register_type(source)}({text})"
        return f"convert_{register_type(kind)}_sat({text})"
    return f"({register_type(kind)}){text}"


def combine_text(reduction: ReductionOp, total: str, value: str, kind: Scalar) -> str:
    """Returns the statement that combines one more value into an accumulator."""
    if reduction is ReductionOp.SUM:
        return f"{total} += {value};"
    if reduction is ReductionOp.PRODUCT:
        return f"{total} *= {value};"
    if reduction in (ReductionOp.ANY, ReductionOp.ALL):
        return f"{total} = {total} {'||' if reduction is ReductionOp.ANY else '&&'} {value};"
    if kind.is_float and reduction is ReductionOp.MAXIMUM_NUMBER:
        return f"{total} = fmax({total}, {value});"
    return f"{total} = {_extreme(kind, value, total, is_minimum=reduction is ReductionOp.MINIMUM)};"


def identity_text(reduction: ReductionOp, kind: Scalar) -> str:
    """Returns the initial value of a reduction."""
    return constant_text(reduction_identity(reduction, kind), kind)
