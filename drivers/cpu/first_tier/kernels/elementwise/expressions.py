"""Writes functions of elements that are given as expressions."""

from typing import Final

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Constant,
    Expression,
    apply,
    load,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.op_table import (
    apply_value,
    computed,
    constant_text,
    from_stored,
    stored,
    to_stored,
)
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.kernels.elementwise.functions import FUNCTIONS, Elementwise
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_elements
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def function_units(target: Target) -> list[Unit]:
    """Returns the units of all functions that are given as expressions."""
    return [_function(target, name, each) for name, each in FUNCTIONS.items()]


_POINTERS: Final = ("input", "other", "third")


def _function(target: Target, name: str, of: Elementwise) -> Unit:
    """Writes a function. Words: those of the nest, then parameters, then limits."""
    count = len(of.operands)
    kernel = KernelWriter(target, f"first_{name}", ("out", *_POINTERS[:count]))
    leaves = [
        load(Value(shape=(), type=kind), ()) for kind in (*of.operands, *[Scalar.FLOAT32] * of.parameters)
    ]
    expression = of.function(*leaves)
    first = words_of_nest(count)
    parameters = [kernel.word(first + number, "float") for number in range(of.parameters)]
    limits = [kernel.word(first + of.parameters + n, "float") for n in range(2)] if of.is_clamped else []

    def compute(v: Vector, values: list[str]) -> str:
        given = [from_stored(v, kind, value) for kind, value in zip(of.operands, values, strict=True)]
        if of.refused:
            element = computed(leaves[1], v.lanes)
            zero = constant_text(v, 0, of.operands[1], element)
            with kernel.code.when(v.any_lane(v.compare(of.refused, element, given[1], zero))):
                kernel.code.effect(f"store i32 1, ptr %status, align {WORD_BYTES}")
        given += [v.splat("float", each) for each in parameters]
        known: dict[Expression, str] = dict(zip(leaves, given, strict=True))
        result = evaluated(v, expression, known)
        if limits:
            return clamped(v, result, *limits)
        return to_stored(v, expression.type, result)

    operands = [(f"%{_POINTERS[n]}", stored(kind)) for n, kind in enumerate(of.operands)]
    write_elements(kernel, kernel.vector, operands, stored(expression.type), compute)
    return kernel.unit()


def evaluated(v: Vector, expression: Expression, known: dict[Expression, str]) -> str:
    """Returns the value of an expression, which is not deep.

    Args:
        v: writes vectors of the width of the operands.
        expression: the expression.
        known: the values of loads; takes those of all parts.
    """
    found = known.get(expression)
    if found is not None:
        return found
    element = computed(expression, v.lanes)
    if isinstance(expression, Constant):
        return constant_text(v, expression.value, expression.type, element)
    assert isinstance(expression, Apply), expression  # noqa: S101 - the functions have no others
    arguments = [(computed(each, v.lanes), evaluated(v, each, known)) for each in expression.arguments]
    known[expression] = apply_value(v, expression, arguments)
    return known[expression]


def curve(v: Vector, op: Op, value: str) -> str:
    """Returns a function of floats."""
    leaf = load(Value(shape=(), type=Scalar.FLOAT32), ())
    return evaluated(v, apply(op, leaf), {leaf: value})
