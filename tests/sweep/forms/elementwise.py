"""Elementwise operators: arithmetic, comparisons, selections, and unary functions."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sweep.form import ALL, KINDS, NUMBERS, QUANTIZED, Form, rescaled, tensor, variants, varied

SHAPES = ((), (5,), (2, 3), (1, 2, 3), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3))
_BROADCASTS = (
    ((2, 3), ()),
    ((), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), (1,)),
    ((2, 1, 3), (1, 4, 1)),
    ((1, 2, 3, 1), (2, 1, 1, 4)),
    ((2, 1, 2, 1, 3), (2, 3)),
    ((1, 2, 1, 2, 1, 3), (2, 1, 2, 1, 3, 1)),
    ((0, 3), (1, 3)),
    ((2, 0), (2, 0)),
)
_ADDITIONS = {"AddOptions", "SubOptions"}


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def binary(
    operator: str,
    *,
    options: str | None = None,
    result: str | None = None,
    kinds: Sequence[str] = NUMBERS,
    low: float | None = None,
    low_right: float | None = None,
) -> Iterator[Form]:
    """Yields forms with two inputs.

    Args:
        operator: the operator's name.
        options: the type of options with a fused activation.
        result: the kind of the output, if it differs from the inputs.
        kinds: the kinds of the inputs.
        low: the smallest number on both sides.
        low_right: the smallest number on the right side.
    """
    least = low if low_right is None else low_right

    def form(name: str, kind: str, a: Sequence[int], b: Sequence[int], **values: int) -> Form:
        real = kind in ("f32", "f16", "f64")
        # Integers of a fixed sign stay small enough for powers not to overflow.
        lows = (low, least) if real or kind[0] == "i" or kind[0] == "u" else (None, None)
        first, second = (
            tensor(s, kind, low=lo, high=None if real or lo is None else 8)
            for s, lo in zip((a, b), lows, strict=True)
        )
        if operator == "DIV" and first.kind.is_quantized:
            # Kernels do not define a quotient by 0.
            second = replace(second, low=second.kind.zero[0] + 1, high=127 if kind[:2] == "q8" else 255)
        output = tensor(_broadcast(a, b), result or kind)
        return Form(
            operator=operator,
            name=f"{kind} {name}",
            inputs=(first, second),
            outputs=(output,),
            options=options,
            values=values,
            tolerance=1e-4 if operator in ("POW", "ATAN2") else 1e-5,
        )

    for kind in kinds:
        yield from varied(kind, form("2x3", kind, (2, 3), (2, 3)))
        yield form("2x3 by 3", kind, (2, 3), (3,))
    for kind in ("f32", "i32", "q8z", "qu8z", "q16", "bool"):
        for shape in SHAPES:
            yield form(f"{shape}", kind, shape, shape)
        for a, b in _BROADCASTS:
            yield form(f"{a} by {b}", kind, a, b)
        if options is not None:
            for activation in range(1, 6):
                yield form(
                    f"activation {activation}", kind, (2, 3), (2, 3), FusedActivationFunction=activation
                )
    for kind in QUANTIZED:
        plain = form("other scales", kind, (3, 40), (3, 40))
        first, second = plain.inputs
        assert first is not None
        assert second is not None
        other = replace(second, kind=rescaled(kind, 0.6, -3))
        target = plain.outputs[0] if result else replace(plain.outputs[0], kind=rescaled(kind))
        yield replace(plain, inputs=(first, other), outputs=(target,))
        if options in _ADDITIONS and kind.startswith("q16"):
            for pot in (0, 1):
                fields = {"PotScaleInt16": pot}
                yield replace(
                    plain,
                    name=f"{kind} other scales, pot {pot}",
                    inputs=(first, other),
                    outputs=(target,),
                    values=fields,
                )
                powers = [replace(KINDS[kind], scale=(2.0**-n,)) for n in (9, 10, 8)]
                yield replace(
                    plain,
                    name=f"{kind} powers of two, pot {pot}",
                    inputs=(replace(first, kind=powers[0]), replace(other, kind=powers[1])),
                    outputs=(replace(target, kind=powers[2]),),
                    values=fields,
                )


def unary(
    operator: str, *, low: float | None = None, high: float | None = None, result: str | None = None,
    kinds: Sequence[str] = NUMBERS, options: str | None = None, **values: float,
) -> Iterator[Form]:  # fmt: skip
    """Yields forms with one input."""

    def form(name: str, kind: str, shape: Sequence[int]) -> Form:
        is_real = kind in ("f32", "f16", "f64")
        data = tensor(shape, kind, low=low if is_real else None, high=high if is_real else None)
        return Form(
            operator=operator,
            name=f"{kind} {name}",
            inputs=(data,),
            outputs=(tensor(shape, result or kind),),
            options=options,
            values=values,
        )

    for kind in kinds:
        yield from varied(kind, form("2x3", kind, (2, 3)))
    for kind in ("f32", "q8z", "qu8z", "q16", "i32"):
        for shape in (*SHAPES, (0,), (2, 0, 3)):
            yield form(f"{shape}", kind, shape)
    for kind in QUANTIZED:
        plain = form("other scale", kind, (8, 40))
        yield replace(plain, outputs=(replace(plain.outputs[0], kind=rescaled(kind)),))
        if kind.startswith(("q8", "qu8")):
            scale = replace(KINDS[kind], scale=(1 / 256,), zero=(-128 if kind[1] == "8" else 0,))
            yield replace(plain, name=f"{kind} to 1/256", outputs=(replace(plain.outputs[0], kind=scale),))
        else:
            scale = replace(KINDS[kind], scale=(1 / 32768,))
            yield replace(plain, name=f"{kind} to 1/32768", outputs=(replace(plain.outputs[0], kind=scale),))


def selection(operator: str) -> Iterator[Form]:
    """Yields forms of SELECT and SELECT_V2."""

    def form(name: str, kind: str, *shapes: Sequence[int]) -> Form:
        condition, a, b = shapes
        output = _broadcast(condition, _broadcast(a, b)) if operator == "SELECT_V2" else tuple(a)
        inputs = (tensor(condition, "bool"), tensor(a, kind), tensor(b, kind))
        return Form(operator=operator, name=f"{kind} {name}", inputs=inputs, outputs=(tensor(output, kind),))

    for kind in ALL:
        yield from varied(kind, form("2x3", kind, (2, 3), (2, 3), (2, 3)))
    for shape in (*SHAPES, (0, 2)):
        yield form(f"{shape}", "f32", shape, shape, shape)
        yield form(f"scalar for {shape}", "f32", (), shape, shape)
        yield form(f"row of {shape}", "f32", shape[:1], shape, shape)
    for a, b in _BROADCASTS:
        yield form(f"{a} by {b}", "f32", a, b, b)
        yield form(f"{a} and {b}", "q8z", a, a, b)
    for kind in ("f32", "i64", "bool", "q8z", "str"):
        for shapes in itertools.product(((), (1,), (1, 1)), repeat=3):
            for shape in ((), (1, 1)):
                name = f"one {shapes} to {shape}"
                yield replace(form(name, kind, *shapes), outputs=(tensor(shape, kind),))
    for kind in QUANTIZED:
        plain = form("other scales", kind, (2, 3), (2, 3), (2, 3))
        condition, first, second = plain.inputs
        assert second is not None
        yield replace(plain, inputs=(condition, first, replace(second, kind=rescaled(kind))))


def prelu(operator: str) -> Iterator[Form]:
    """Yields forms whose second input is alpha."""
    yield from binary(operator)
    for kind in QUANTIZED:
        data = tensor((1, 4, 4, 3), kind)
        for shape in ((3,), (1, 1, 3), (4, 4, 3), (1, 4, 4, 3), (1,), ()):
            alpha = tensor(shape, rescaled(kind, 0.3, -3), is_constant=True)
            output = tensor((1, 4, 4, 3), rescaled(kind))
            yield Form(
                operator=operator, name=f"{kind} alpha {shape}", inputs=(data, alpha), outputs=(output,)
            )


def many(operator: str) -> Iterator[Form]:
    """Yields forms of ADD_N."""
    for kind in ALL:
        for count in (1, 2, 3, 5):
            inputs = (tensor((2, 3), kind),) * count
            yield from variants(
                Form(
                    operator=operator,
                    name=f"{kind} of {count}",
                    inputs=inputs,
                    outputs=(tensor((2, 3), kind),),
                ),
                constants=count == 2,
                dynamic=count == 2,
            )
    for shape in (*SHAPES, (0, 2)):
        inputs = (tensor(shape),) * 2
        yield Form(operator=operator, name=f"{shape}", inputs=inputs, outputs=(tensor(shape),))


def _binary(**fields: object) -> Callable[[str], Iterator[Form]]:
    return partial(binary, **fields)  # type: ignore[arg-type]


def _unary(**fields: object) -> Callable[[str], Iterator[Form]]:
    return partial(unary, **fields)  # type: ignore[arg-type]


_comparison = _binary(result="bool")

FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "ADD": _binary(options="AddOptions", kinds=(*NUMBERS, "i16")),
    "SUB": _binary(options="SubOptions"),
    "MUL": _binary(options="MulOptions", kinds=(*NUMBERS, "i16")),
    "DIV": _binary(options="DivOptions", low_right=1),
    "POW": _binary(low=1),
    "ATAN2": _binary(),
    "MAXIMUM": _binary(kinds=ALL),
    "MINIMUM": _binary(kinds=ALL),
    "FLOOR_DIV": _binary(kinds=ALL, low_right=1),
    "FLOOR_MOD": _binary(kinds=ALL, low_right=1),
    "SQUARED_DIFFERENCE": _binary(),
    "BITWISE_XOR": _binary(kinds=ALL),
    "RIGHT_SHIFT": _binary(kinds=ALL, low_right=1),
    "LOGICAL_AND": _binary(),
    "LOGICAL_OR": _binary(),
    "EQUAL": _comparison,
    "NOT_EQUAL": _comparison,
    "LESS": _comparison,
    "LESS_EQUAL": _comparison,
    "GREATER": _comparison,
    "GREATER_EQUAL": _comparison,
    "PRELU": prelu,
    "ADD_N": many,
    "SELECT": selection,
    "SELECT_V2": selection,
    **{
        name: _unary()
        for name in (
            "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGICAL_NOT", "LOGISTIC", "NEG", "RELU",
            "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "ZEROS_LIKE",
        )
    },
    "LOG": _unary(low=0.01),
    "SQRT": _unary(low=0.0),
    "RSQRT": _unary(low=0.01),
    "GELU": _unary(options="GeluOptions"),
    "LEAKY_RELU": _unary(options="LeakyReluOptions", Alpha=0.2),
}  # fmt: skip
