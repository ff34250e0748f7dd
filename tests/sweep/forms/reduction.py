"""Operators that reduce along axes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sweep.form import ALL, NUMBERS, QUANTIZED, Form, constant, fed, rescaled, tensor, variants, varied

_SHAPE = (2, 3, 4)


def _reduced(shape: Sequence[int], axes: Sequence[int], *, keeps: bool) -> tuple[int, ...]:
    rank = len(shape)
    gone = {axis % rank if rank else axis for axis in axes}
    return tuple(1 if n in gone else length for n, length in enumerate(shape) if keeps or n not in gone)


def reduction(operator: str) -> Iterator[Form]:
    """Yields forms whose second input lists the axes."""

    def form(name: str, kind: str, shape: Sequence[int], axes: Sequence[int], *, keeps: bool = False) -> Form:
        data = tensor(shape, kind, low=1, high=2) if kind in ("f32", "f16") else tensor(shape, kind)
        if operator == "REDUCE_PROD" and kind in QUANTIZED:
            # Real numbers of at most 1, whose products cannot overflow.
            zero, one = data.kind.zero[0], int(1 / data.kind.scale[0])
            data = replace(data, low=zero - one, high=min(zero + one, 127 if kind[:2] == "q8" else 255))
        output = tensor(_reduced(shape, axes, keeps=keeps), kind)
        return Form(
            operator=operator,
            name=f"{kind} {name}",
            inputs=(data, constant(axes)),
            outputs=(output,),
            options="ReducerOptions",
            values={"KeepDims": keeps},
        )

    for kind in NUMBERS:
        yield from varied(kind, form("2x3x4", kind, _SHAPE, (1,)))
        for axes in (
            ((0,), (-1,), (0, 2), (0, 1, 2), (1, 1))
            if kind in ("f32", "q8z", "i32", "q16", "bool")
            else ((0, 2),)
        ):
            for keeps in (False, True):
                yield form(f"2x3x4 axes {axes}{' kept' if keeps else ''}", kind, _SHAPE, axes, keeps=keeps)
        yield from variants(form("to a scalar", kind, _SHAPE, (0, 1, 2)), constants=False)
    for kind in ("f32", "q8z", "i32", "bool"):
        for shape in ((), (5,), (2, 3), (2, 3, 2, 2), (2, 1, 3, 2, 2), (1, 2, 1, 3, 2, 2), (0, 3), (3, 0)):
            choices: set[tuple[int, ...]] = {(), (0,), (-1,), tuple(range(len(shape)))}
            for chosen in sorted(choices):
                if shape or not chosen:
                    yield form(f"{shape} axes {chosen}", kind, shape, chosen)
        plain = form("fed axes", kind, _SHAPE, (1,))
        yield replace(plain, inputs=(plain.inputs[0], fed((1,))))
        yield replace(plain, name=f"{kind} scalar axis", inputs=(plain.inputs[0], constant(1)))
    for kind in QUANTIZED:
        for axes in ((1,), (1, 2), (0, 1, 2)):
            plain = form(f"4x5x6 other scale axes {axes}", kind, (4, 5, 6), axes)
            yield replace(plain, outputs=(replace(plain.outputs[0], kind=rescaled(kind, 2.5)),))


def sums_along(operator: str) -> Iterator[Form]:
    """Yields forms of CUMSUM."""
    for kind in NUMBERS:
        for flags in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield from variants(
                Form(
                    operator=operator,
                    name=f"{kind} flags {flags}",
                    inputs=(tensor(_SHAPE, kind), constant(1)),
                    outputs=(tensor(_SHAPE, kind),),
                    options="CumsumOptions",
                    values={"Exclusive": flags[0], "Reverse": flags[1]},
                ),
                dynamic=flags == (0, 0) and kind == "f32",
                constants=flags == (0, 0) and kind == "f32",
            )
    for shape in ((5,), (0, 2), (2, 3, 2, 2), (2, 1, 3, 2, 2), (1, 2, 1, 3, 2, 2)):
        for axis in (0, -1):
            for make in (constant, fed):
                name = f"{shape} axis {axis}{' fed' if make is fed else ''}"
                inputs = (tensor(shape), make(axis))
                yield Form(
                    operator=operator,
                    name=name,
                    inputs=inputs,
                    outputs=(tensor(shape),),
                    options="CumsumOptions",
                )
    yield Form(
        operator=operator,
        name="list of an axis",
        inputs=(tensor(_SHAPE), constant((1,))),
        outputs=(tensor(_SHAPE),),
    )


def searching(operator: str) -> Iterator[Form]:
    """Yields forms of ARG_MAX and ARG_MIN."""
    options = "ArgMaxOptions" if operator == "ARG_MAX" else "ArgMinOptions"
    for kind in ALL:
        for result, number in (("i32", 2), ("i64", 4)):
            form = Form(
                operator=operator,
                name=f"{kind} to {result}",
                inputs=(tensor(_SHAPE, kind), constant(1)),
                outputs=(tensor((2, 4), result),),
                options=options,
                values={"OutputType": number},
            )
            yield from variants(
                form, constants=result == "i32" and kind == "f32", dynamic=result == "i32" and kind == "f32"
            )
    for shape in ((5,), (2, 3, 2, 2), (2, 1, 3, 2, 2), (1, 2, 1, 3, 2, 2), (0, 3)):
        for axis in (0, -1):
            for make in (constant, fed):
                for kind in ("i32", "i64"):
                    yield Form(
                        operator=operator,
                        name=f"{shape} axis {axis} {kind}{' fed' if make is fed else ''}",
                        inputs=(tensor(shape), make(axis, kind)),
                        outputs=(tensor(_reduced(shape, (axis,), keeps=False), "i32"),),
                        options=options,
                        values={"OutputType": 2},
                    )


_REDUCTIONS = ("MEAN", "SUM", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")

FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    **dict.fromkeys(_REDUCTIONS, reduction),
    "CUMSUM": sums_along,
    "ARG_MAX": searching,
    "ARG_MIN": searching,
}
