"""Operators that rearrange elements; inputs and outputs have the same type."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sweep.form import (
    ALL,
    QUANTIZED,
    Form,
    Kind,
    Tensor,
    constant,
    fed,
    rescaled,
    simple,
    tensor,
    varied,
)

#: Types for which ranks and other rare features are tried.
FEW = ("f32", "q8z", "i64", "bool")
_SHAPES = ((), (5,), (2, 3), (2, 3, 2), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3), (0, 3), (2, 0))


def moved(
    make: Callable[[str | Kind], Form], kinds: Sequence[str] = ALL, *, rescales: bool = True
) -> Iterator[Form]:
    """Yields a form in every kind and variant, and with another quantisation of its outputs."""
    for kind in kinds:
        form = make(kind)
        form = replace(form, name=f"{kind} {form.name}")
        yield from varied(kind, form)
        if rescales and kind in QUANTIZED:
            outputs = tuple(replace(t, kind=rescaled(t.kind)) for t in form.outputs)
            yield replace(form, name=f"{form.name}, other scale", outputs=outputs)


def reshape(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(operator, "2x6 to 3x4", (tensor((2, 6), k), constant((3, 4))), (tensor((3, 4), k),))
    )
    for kind in FEW:
        for old, new, asked in (
            ((2, 6), (3, 4), (3, -1)),
            ((1,), (), ()),
            ((), (1, 1), (1, 1)),
            ((2, 6), (12,), (-1,)),
            ((2, 3, 2), (1, 2, 1, 3, 1, 2), (1, 2, 1, 3, 1, 2)),
            ((0, 3), (3, 0), (3, 0)),
            ((0, 3), (0, 5), (0, 5)),
            ((0, 3), (0,), (-1,)),
        ):
            source, target = tensor(old, kind), tensor(new, kind)
            for make in (constant, fed):
                shape = make(np.array(asked, np.int32))
                yield simple(
                    operator,
                    f"{kind} {old} to {asked}{' fed' if make is fed else ''}",
                    (source, shape),
                    (target,),
                )
            name = f"{kind} {old} to {asked} option"
            yield simple(operator, name, (source,), (target,), "ReshapeOptions", NewShape=list(asked))
    yield simple(operator, "i64 shape", (tensor((2, 6)), constant((3, 4), "i64")), (tensor((3, 4)),))


def expand_dims(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(operator, "2x3", (tensor((2, 3), k), constant(1)), (tensor((2, 1, 3), k),))
    )
    for shape in _SHAPES[:-3]:
        for axis in sorted({0, -1, len(shape)}):
            for number in ("i32", "i64"):
                for make in (constant, fed):
                    rank = len(shape) + 1
                    new = (*shape[: axis % rank], 1, *shape[axis % rank :])
                    name = f"{shape} axis {axis} {number}{' fed' if make is fed else ''}"
                    yield simple(operator, name, (tensor(shape), make(axis, number)), (tensor(new),))
    yield simple(operator, "list of an axis", (tensor((2, 3)), constant((0,))), (tensor((1, 2, 3)),))


def squeeze(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(
            operator,
            "2x1x3",
            (tensor((2, 1, 3), k),),
            (tensor((2, 3), k),),
            "SqueezeOptions",
            SqueezeDims=[1],
        )
    )
    for shape, axes, new in (
        ((1, 2, 1), [], (2,)),
        ((1, 2, 1), [-1], (1, 2)),
        ((1, 1), [], ()),
        ((1,), [0], ()),
        ((), [], ()),
        ((1, 2, 1, 3, 1, 2), [0, 2, 4], (2, 3, 2)),
        ((1, 0), [0], (0,)),
        ((1, 2, 1, 3, 1, 2, 1), [0], (2, 1, 3, 1, 2, 1)),
    ):
        yield simple(
            operator,
            f"{shape} axes {axes}",
            (tensor(shape),),
            (tensor(new),),
            "SqueezeOptions",
            SqueezeDims=axes,
        )


def transpose(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(
            operator, "2x3x4", (tensor((2, 3, 4), k), constant((2, 0, 1))), (tensor((4, 2, 3), k),)
        )
    )
    for kind in FEW:
        for shape in _SHAPES:
            order = tuple(range(len(shape)))[::-1]
            for make in (constant, fed):
                name = f"{kind} {shape}{' fed' if make is fed else ''}"
                inputs = tensor(shape, kind), make(np.array(order, np.int32))
                yield simple(operator, name, inputs, (tensor(shape[::-1], kind),))
    yield simple(operator, "negative", (tensor((2, 3, 4)), constant((-1, 0, 1))), (tensor((4, 2, 3)),))
    yield simple(operator, "i64 order", (tensor((2, 3)), constant((1, 0), "i64")), (tensor((3, 2)),))


def concatenation(operator: str) -> Iterator[Form]:
    def form(
        name: str,
        kinds: Sequence[str | Kind],
        shapes: Sequence[Sequence[int]],
        axis: int,
        out: Any,
        **values: int,
    ) -> Form:
        inputs = [tensor(s, k) for s, k in zip(shapes, kinds, strict=True)]
        place = axis % len(shapes[0])
        joined = list(shapes[0])
        joined[place] = sum(s[place] for s in shapes)
        return simple(
            operator, name, inputs, (tensor(joined, out),), "ConcatenationOptions", Axis=axis, **values
        )

    yield from moved(lambda k: form("2x3 2x2", (k, k), ((2, 3), (2, 2)), 1, k), rescales=False)
    for kind in FEW:
        for shape in _SHAPES[1:]:
            for axis in (0, -1):
                yield form(f"{kind} {shape} axis {axis}", (kind, kind), (shape, shape), axis, kind)
        yield form(f"{kind} one", (kind,), ((2, 3),), 0, kind)
        yield form(f"{kind} five", (kind,) * 5, ((2, 3),) * 5, 0, kind)
        yield form(f"{kind} empty one", (kind,) * 2, ((0, 3), (2, 3)), 0, kind)
    for activation in range(1, 6):
        yield form(
            f"activation {activation}",
            ("f32",) * 2,
            ((2, 3),) * 2,
            0,
            "f32",
            FusedActivationFunction=activation,
        )
    for kind in QUANTIZED:
        yield form(
            f"{kind} other scales", (kind, rescaled(kind, 0.7)), ((2, 30),) * 2, 0, rescaled(kind, 1.3, -5)
        )
        yield form(f"{kind} other scale out", (kind, kind), ((2, 30),) * 2, 0, rescaled(kind, 1.3, -5))


def pack(operator: str) -> Iterator[Form]:
    def form(name: str, kind: str | Kind, shape: Sequence[int], axis: int, count: int = 2) -> Form:
        rank = len(shape) + 1
        new = (*shape[: axis % rank], count, *shape[axis % rank :])
        inputs = (tensor(shape, kind),) * count
        return simple(
            operator, name, inputs, (tensor(new, kind),), "PackOptions", ValuesCount=count, Axis=axis
        )

    yield from moved(lambda k: form("2x3", k, (2, 3), 1))
    for kind in FEW:
        for shape in _SHAPES:
            for axis in (0, -1):
                yield form(f"{kind} {shape} axis {axis}", kind, shape, axis)
        yield form(f"{kind} one", kind, (2, 3), 0, 1)


def unpack(operator: str) -> Iterator[Form]:
    def form(name: str, kind: str | Kind, shape: Sequence[int], axis: int) -> Form:
        place = axis % len(shape)
        new = (*shape[:place], *shape[place + 1 :])
        outputs = (tensor(new, kind),) * shape[place]
        return simple(
            operator, name, (tensor(shape, kind),), outputs, "UnpackOptions", Num=shape[place], Axis=axis
        )

    yield from moved(lambda k: form("2x3", k, (2, 3), 1))
    for kind in FEW:
        for shape in _SHAPES[1:-2]:
            for axis in (0, -1):
                yield form(f"{kind} {shape} axis {axis}", kind, shape, axis)
        yield form(f"{kind} empty", kind, (2, 0), 0)


def shape(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for result, number in (("i32", 2), ("i64", 4)):
            form = simple(
                operator,
                f"{kind} to {result}",
                (tensor((2, 3), kind),),
                (tensor((2,), result),),
                "ShapeOptions",
                OutType=number,
            )
            yield from varied(kind, form)
    for dimensions in _SHAPES:
        output = tensor((len(dimensions),), "i32")
        yield simple(operator, f"{dimensions}", (tensor(dimensions),), (output,), "ShapeOptions", OutType=2)


def rank(operator: str) -> Iterator[Form]:
    for kind in ALL:
        yield from varied(kind, simple(operator, kind, (tensor((2, 3), kind),), (tensor((), "i32"),)))
    for dimensions in _SHAPES:
        yield simple(operator, f"{dimensions}", (tensor(dimensions),), (tensor((), "i32"),))


def split(operator: str) -> Iterator[Form]:
    def form(
        name: str, kind: str | Kind, shape: Sequence[int], axis: int, count: int, make: Any = constant
    ) -> Form:
        part = list(shape)
        part[axis] //= count
        outputs = (tensor(part, kind),) * count
        return simple(
            operator, name, (make(axis), tensor(shape, kind)), outputs, "SplitOptions", NumSplits=count
        )

    yield from moved(lambda k: form("2x4", k, (2, 4), 1, 2))
    for kind in FEW:
        for dimensions in (
            (4,),
            (4, 3),
            (4, 3, 4),
            (4, 1, 3, 4),
            (4, 2, 1, 3, 4),
            (4, 1, 2, 2, 1, 4),
            (0, 4),
        ):
            for axis in (0, -1):
                for make in (constant, fed):
                    name = f"{kind} {dimensions} axis {axis}{' fed' if make is fed else ''}"
                    yield form(name, kind, dimensions, axis, 2, make)
    yield simple(
        operator,
        "list of an axis",
        (constant((1,)), tensor((2, 4))),
        (tensor((2, 2)),) * 2,
        "SplitOptions",
        NumSplits=2,
    )


def split_v(operator: str) -> Iterator[Form]:
    def form(name: str, kind: str | Kind, sizes: Tensor, axis: Tensor) -> Form:
        outputs = tuple(tensor((2, n), kind) for n in (1, 0, 4))
        return simple(
            operator, name, (tensor((2, 5), kind), sizes, axis), outputs, "SplitVOptions", NumSplits=3
        )

    yield from moved(lambda k: form("2x5", k, constant((1, 0, 4)), constant(1)))
    for number in ("i32", "i64"):
        for sizes in ((1, 0, 4), (1, 0, -1)):
            for make in (constant, fed):
                for axis in (constant(-1), fed(-1), constant((1,))):
                    name = f"{number} {sizes} {make.__name__} axis {axis.shape} {axis.is_constant}"
                    yield form(name, "f32", make(sizes, number), axis)


def slice_(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(
            operator, "3x4", (tensor((3, 4), k), constant((1, 0)), constant((2, 3))), (tensor((2, 3), k),)
        )
    )
    for kind in FEW:
        for dimensions in _SHAPES[1:-2]:
            begin = [length // 2 for length in dimensions]
            size = [length - at for length, at in zip(dimensions, begin, strict=True)]
            for number in ("i32", "i64"):
                for make in (constant, fed):
                    for asked in (size, [-1] * len(size)):
                        name = f"{kind} {dimensions} {number} {asked}{' fed' if make is fed else ''}"
                        inputs = tensor(dimensions, kind), make(begin, number), make(asked, number)
                        yield simple(operator, name, inputs, (tensor(size, kind),))
    yield simple(operator, "nothing", (tensor((3, 4)), constant((1, 0)), constant((0, 3))), (tensor((0, 3)),))
    yield simple(
        operator,
        "scalar",
        (tensor(()), constant(np.zeros(0, np.int32)), constant(np.zeros(0, np.int32))),
        (tensor(()),),
    )


def strided_slice(operator: str) -> Iterator[Form]:
    def form(
        name: str,
        kind: str | Kind,
        shape: Sequence[int],
        slices: Any,
        make: Any = constant,
        number: str = "i32",
        **masks: int,
    ) -> Form:
        result = np.empty(shape, np.int8)[slices]
        listed = [
            s if isinstance(s, slice) else slice(s, s + 1, 1)
            for s in slices
            if s is not None and s is not Ellipsis
        ]
        lists = [
            make([s.start if s.start is not None else 0 for s in listed], number),
            make([s.stop if s.stop is not None else 0 for s in listed], number),
            make([s.step if s.step is not None else 1 for s in listed], number),
        ]
        fields = {
            "BeginMask": 0,
            "EndMask": 0,
            "EllipsisMask": 0,
            "NewAxisMask": 0,
            "ShrinkAxisMask": 0,
            **masks,
        }
        return simple(
            operator,
            name,
            (tensor(shape, kind), *lists),
            (tensor(result.shape, kind),),
            "StridedSliceOptions",
            **fields,
        )

    yield from moved(lambda k: form("3x4", k, (3, 4), (slice(0, 3, 2), slice(1, 4, 1))))
    for kind in FEW:
        for make in (constant, fed):
            for number in ("i32", "i64"):
                tail = f"{number}{' fed' if make is fed else ''}"
                yield form(
                    f"{kind} steps {tail}", kind, (3, 4), (slice(2, 0, -1), slice(-3, -1, 1)), make, number
                )
                yield form(
                    f"{kind} masks {tail}",
                    kind,
                    (3, 4),
                    (slice(None, 2, 1), slice(1, None, 2)),
                    make,
                    number,
                    BeginMask=1,
                    EndMask=2,
                )
                yield form(
                    f"{kind} backwards {tail}",
                    kind,
                    (3, 4),
                    (slice(None, None, -1), slice(0, 4, 1)),
                    make,
                    number,
                    BeginMask=1,
                    EndMask=1,
                )
                yield form(
                    f"{kind} shrunk {tail}", kind, (3, 4), (1, slice(0, 4, 1)), make, number, ShrinkAxisMask=1
                )
                yield form(f"{kind} shrunk all {tail}", kind, (3, 4), (1, 2), make, number, ShrinkAxisMask=3)
                yield form(f"{kind} fewer {tail}", kind, (3, 4), (slice(1, 3, 1),), make, number)
        for shape in ((5,), (2, 3, 4), (2, 3, 4, 2), (2, 3, 2, 2, 3)):
            yield form(f"{kind} {shape}", kind, shape, tuple(slice(0, n, 2) for n in shape))
            yield form(f"{kind} {shape} nothing", kind, shape, tuple(slice(1, 1, 1) for n in shape))
        for empty in ((0,), (0, 3), (2, 0)):
            for place in range(len(empty)):
                lists = [constant((0,) * len(empty)), constant(empty), constant((1,) * len(empty))]
                rest = (*empty[:place], *empty[place + 1 :])
                yield simple(
                    operator,
                    f"{kind} {empty} without axis {place}",
                    (tensor(empty, kind), *lists),
                    (tensor(rest, kind),),
                    "StridedSliceOptions",
                    ShrinkAxisMask=1 << place,
                )
        lists = [constant(v) for v in ((0, 0, 0), (0, 0, 2), (1, 1, 1))]
        fields = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "ShrinkAxisMask": 0}
        yield simple(
            operator,
            f"{kind} new axis",
            (tensor((3, 4), kind), *lists),
            (tensor((1, 0, 2), kind),),
            "StridedSliceOptions",
            **fields,
            NewAxisMask=1,
        )
        lists = [constant(v) for v in ((0, 1), (0, 3), (1, 1))]
        fields = {"BeginMask": 0, "EndMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}
        yield simple(
            operator,
            f"{kind} ellipsis",
            (tensor((2, 3, 4), kind), *lists),
            (tensor((2, 3, 2), kind),),
            "StridedSliceOptions",
            **fields,
            EllipsisMask=1,
        )
        lists = [constant(v) for v in ((1, 0), (0, 2), (1, 1))]
        yield simple(
            operator,
            f"{kind} offset",
            (tensor((3, 4), kind), *lists),
            (tensor((0, 2), kind),),
            "StridedSliceOptions",
            **fields,
            Offset=1,
        )


def reverse(operator: str) -> Iterator[Form]:
    for axes in ((1,), (0, 1), (-1,), (0, 2)):

        def make(kind: str | Kind, axes: tuple[int, ...] = axes) -> Form:
            return simple(
                operator,
                f"axes {axes}",
                (tensor((2, 3, 4), kind), constant(axes)),
                (tensor((2, 3, 4), kind),),
            )

        yield from moved(make)
    for dimensions in _SHAPES[1:]:
        for fill in (constant, fed):
            name = f"{dimensions}{' fed' if fill is fed else ''}"
            yield simple(operator, name, (tensor(dimensions), fill((0,))), (tensor(dimensions),))


def reverse_sequence(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):

        def make(kind: str | Kind, number: str = number) -> Form:
            inputs = tensor((2, 3, 4), kind), constant((1, 3), number)
            return simple(
                operator,
                f"lengths {number}",
                inputs,
                (tensor((2, 3, 4), kind),),
                "ReverseSequenceOptions",
                SeqDim=1,
                BatchDim=0,
            )

        yield from moved(make)
    for dimensions in ((3, 2), (3, 2, 2, 2), (3, 2, 1, 2, 2)):
        inputs = tensor(dimensions), fed((1, 3))
        yield simple(
            operator,
            f"{dimensions}",
            inputs,
            (tensor(dimensions),),
            "ReverseSequenceOptions",
            SeqDim=0,
            BatchDim=1,
        )


def dynamic_update_slice(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        for start in ((1, 2), (5, -1)):

            def make(kind: str | Kind, number: str = number, start: tuple[int, ...] = start) -> Form:
                inputs = tensor((3, 4), kind), tensor((2, 2), kind), fed(start, number)
                return simple(operator, f"{number} {start}", inputs, (tensor((3, 4), kind),))

            yield from moved(make)
    for dimensions in _SHAPES[:-1]:
        inputs = tensor(dimensions), tensor(dimensions), fed(np.zeros(len(dimensions), np.int32))
        yield simple(operator, f"{dimensions}", inputs, (tensor(dimensions),))


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "CONCATENATION": concatenation,
    "DYNAMIC_UPDATE_SLICE": dynamic_update_slice,
    "EXPAND_DIMS": expand_dims,
    "PACK": pack,
    "RANK": rank,
    "RESHAPE": reshape,
    "REVERSE_SEQUENCE": reverse_sequence,
    "REVERSE_V2": reverse,
    "SHAPE": shape,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
