"""Operators that gather, scatter, repeat or pad elements."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sweep.form import ALL, NUMBERS, Form, Kind, constant, fed, simple, tensor, varied
from sweep.forms.shaping import FEW, moved


def gather(operator: str) -> Iterator[Form]:
    def form(
        name: str, kind: str | Kind, shape: Sequence[int], indexes: Any, axis: int, batch: int = 0
    ) -> Form:
        rank = len(shape)
        place = axis % rank
        listed = indexes.shape[batch:]
        result = (*shape[:place], *listed, *shape[place + 1 :])
        return simple(
            operator,
            name,
            (tensor(shape, kind), indexes),
            (tensor(result, kind),),
            "GatherOptions",
            Axis=axis,
            BatchDims=batch,
        )

    for number in ("i32", "i64", "i16"):
        yield from moved(lambda k, n=number: form(f"{n}", k, (3, 4), fed((2, 0), n), 0))  # type: ignore[misc]
    for kind in FEW:
        for shape in ((3,), (3, 4, 3), (3, 1, 2, 3), (3, 1, 2, 2, 3), (3, 1, 1, 2, 2, 3)):
            for axis in (0, -1):
                for value in (1, [2, 0], [[0, 1], [2, 2]], np.zeros((0,), np.int32)):
                    for make in (constant, fed):
                        indexes = make(value)
                        name = f"{kind} {shape} axis {axis} {np.shape(value)}{' fed' if make is fed else ''}"
                        yield form(name, kind, shape, indexes, axis)
        yield form(f"{kind} batch", kind, (2, 3, 4), fed([[0, 2], [1, 1]]), 1, 1)
        yield form(f"{kind} batch 2", kind, (2, 2, 4), fed(np.ones((2, 2, 3), np.int32)), 2, 2)
    yield form("i4-like negative", "f32", (3, 4), fed((-1, 0)), 0)


def gather_nd(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64", "i16"):
        yield from moved(
            lambda k, n=number: simple(
                operator, n, (tensor((3, 4), k), fed([[2], [0]], n)), (tensor((2, 4), k),)
            )  # type: ignore[misc]
        )
    for shape, indexes, result in (
        ((3, 4), [[2, 1], [0, 0]], (2,)),
        ((3, 4), [1, 1], ()),
        ((2, 2, 3), [[[0, 1]], [[1, 1]]], (2, 1, 3)),
        ((2, 2, 1, 3, 2), [[1, 1]], (1, 1, 3, 2)),
        ((3, 4), np.zeros((0, 2), np.int32), (0,)),
        ((3,), [[0], [2]], (2,)),
    ):
        for make in (constant, fed):
            yield simple(
                operator,
                f"{shape} {np.shape(indexes)} {make.__name__}",
                (tensor(shape), make(indexes)),
                (tensor(result),),
            )


def scatter_nd(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        yield from moved(
            lambda k, n=number: simple(  # type: ignore[misc]
                operator,
                n,
                (fed([[2], [0]], n), tensor((2, 4), k), constant((3, 4), n)),
                (tensor((3, 4), k),),
            )
        )
    for indexes, updates, shape in (
        ([[2, 1], [0, 0]], (2,), (3, 4)),
        ([[1], [1]], (2, 3), (4, 3)),
        ([[[0], [1]]], (1, 2, 2), (4, 2)),
        ([[0, 1, 0]], (1, 2, 2), (1, 2, 1, 2, 2)),
        (np.zeros((0, 1), np.int32), (0, 2), (3, 2)),
    ):
        for make in (constant, fed):
            inputs = fed(indexes), tensor(updates), make(shape)
            yield simple(operator, f"{np.shape(indexes)} {shape} {make.__name__}", inputs, (tensor(shape),))


def tile(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        yield from moved(
            lambda k, n=number: simple(
                operator, n, (tensor((2, 3), k), constant((2, 1), n)), (tensor((4, 3), k),)
            )  # type: ignore[misc]
        )
    for shape in ((), (5,), (2, 3, 2), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3), (0, 3)):
        for times in (2, 1, 0):
            for make in (constant, fed):
                result = tuple(n * times for n in shape)
                name = f"{shape} by {times} {make.__name__}"
                yield simple(
                    operator,
                    name,
                    (tensor(shape), make(np.full(len(shape), times, np.int32))),
                    (tensor(result),),
                )


def broadcast_to(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        yield from moved(
            lambda k, n=number: simple(
                operator, n, (tensor((2, 1), k), constant((2, 3), n)), (tensor((2, 3), k),)
            )  # type: ignore[misc]
        )
    for kind in FEW:
        for shape, result in (
            ((), (2,)),
            ((), ()),
            ((3,), (2, 2, 3)),
            ((1, 3), (2, 1, 2, 3)),
            ((2, 1, 1), (1, 2, 2, 3, 2)),
            ((1,), (1, 2, 1, 2, 1, 3)),
            ((1, 2), (0, 2)),
            ((1, 1), (1, 1, 1, 2, 1, 1, 1, 2)),
        ):
            for make in (constant, fed):
                name = f"{kind} {shape} to {result} {make.__name__}"
                yield simple(
                    operator,
                    name,
                    (tensor(shape, kind), make(np.array(result, np.int32))),
                    (tensor(result, kind),),
                )


def broadcast_args(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        for a, b, result in (
            ((2, 1), (1, 3), (2, 3)),
            ((3,), (2, 3), (2, 3)),
            ((), (2,), (2,)),
            ((), (), ()),
        ):
            for make in (constant, fed):
                inputs = make(np.array(a, np.int32), number), make(np.array(b, np.int32), number)
                yield simple(
                    operator, f"{number} {a} {b} {make.__name__}", inputs, (tensor((len(result),), number),)
                )


def one_hot(operator: str) -> Iterator[Form]:
    def form(name: str, kind: str | Kind, indexes: Any, axis: int, depth: Any) -> Form:
        rank = len(indexes.shape) + 1
        place = axis % rank
        result = (*indexes.shape[:place], 4, *indexes.shape[place:])
        inputs = indexes, depth, tensor((), kind), tensor((), kind)
        return simple(operator, name, inputs, (tensor(result, kind),), "OneHotOptions", Axis=axis)

    for kind in ALL:
        yield from varied(kind, form(kind, kind, fed((1, 0, 3)), -1, constant(4)))
    for number in ("i32", "i64"):
        for value in ([1, 5, -1], [[1], [2]], 2, [[[[1, 2]]]]):
            for axis in (-1, 0):
                for make in (constant, fed):
                    yield form(
                        f"{number} {value} {axis} {make.__name__}", "f32", fed(value, number), axis, make(4)
                    )


def matrices(operator: str) -> Iterator[Form]:
    """Yields forms of MATRIX_DIAG and MATRIX_SET_DIAG."""

    def form(name: str, kind: str | Kind, shape: Sequence[int], columns: int) -> Form:
        if operator == "MATRIX_DIAG":
            return simple(operator, name, (tensor(shape, kind),), (tensor((*shape, shape[-1]), kind),))
        whole = (*shape, columns)
        diagonal = (*shape[:-1], min(shape[-1], columns))
        return simple(operator, name, (tensor(whole, kind), tensor(diagonal, kind)), (tensor(whole, kind),))

    yield from moved(lambda k: form("2x3", k, (2, 3), 4))
    for shape in ((3,), (2, 1, 3), (2, 1, 2, 3), (1, 2, 1, 2, 3), (0, 2), (2, 0)):
        yield form(f"{shape}", "f32", shape, 2)


def sparse_to_dense(operator: str) -> Iterator[Form]:
    for number in ("i32", "i64"):
        yield from moved(
            lambda k, n=number: simple(  # type: ignore[misc]
                operator,
                n,
                (fed((0, 2), n), constant((4,), n), tensor((2,), k), tensor((), k)),
                (tensor((4,), k),),
            )
        )
        for indexes, shape, values in (
            (1, (4,), ()),
            ([0, 3], (4,), ()),
            ([[0, 1], [1, 2]], (2, 3), (2,)),
            ([[0, 1, 0], [1, 2, 1]], (2, 3, 2), (2,)),
            ([[0, 1, 0, 0]], (2, 3, 2, 1), (1,)),
        ):
            for make in (constant, fed):
                inputs = fed(indexes, number), make(shape, number), tensor(values), tensor(())
                yield simple(
                    operator,
                    f"{number} {np.shape(indexes)} {shape} {values} {make.__name__}",
                    inputs,
                    (tensor(shape),),
                )


def pads(operator: str) -> Iterator[Form]:
    """Yields forms of PAD, PADV2 and MIRROR_PAD."""

    def form(name: str, kind: str | Kind, shape: Sequence[int], pads: Any, *, mode: int = 0) -> Form:
        new = tuple(n + int(a) + int(b) for n, (a, b) in zip(shape, pads.value.tolist(), strict=True))
        inputs = [tensor(shape, kind), pads]
        if operator == "PADV2":
            inputs.append(tensor((), kind))
        options: dict[str, Any] = (
            {"options": "MirrorPadOptions", "Mode": mode} if operator == "MIRROR_PAD" else {}
        )
        return simple(operator, name, inputs, (tensor(new, kind),), **options)

    for number in ("i32", "i64", "i8", "i16"):
        yield from moved(lambda k, n=number: form(n, k, (2, 3), constant([[1, 1], [0, 2]], n)))  # type: ignore[misc]
    for kind in FEW:
        for shape in ((5,), (2, 3, 2), (2, 2, 3, 2), (2, 2, 2, 3, 2), (2, 2, 2, 2, 2, 3)):
            for make in (constant, fed):
                pad = make([[1, 0]] * len(shape))
                yield form(f"{kind} {shape} {make.__name__}", kind, shape, pad)
                if operator == "MIRROR_PAD":
                    yield form(f"{kind} {shape} {make.__name__} symmetric", kind, shape, pad, mode=1)
        if operator != "MIRROR_PAD":
            yield form(f"{kind} empty", kind, (0, 3), constant([[1, 0], [0, 0]]))
            yield form(f"{kind} scalar value", kind, (3,), constant([[1, 0]]))


def dilate(operator: str) -> Iterator[Form]:
    yield from moved(
        lambda k: simple(
            operator, "3x2", (tensor((3, 2), k), constant((2, 1)), tensor((), k)), (tensor((5, 2), k),)
        )
    )
    for shape in ((3,), (2, 3, 2, 2), (2, 1, 3, 2, 2), (1, 2, 1, 3, 2, 2)):
        result = tuple(2 * n - 1 for n in shape)
        yield simple(
            operator,
            f"{shape}",
            (tensor(shape), constant([2] * len(shape)), constant(0.5, "f32")),
            (tensor(result),),
        )


def blocks_2d(operator: str) -> Iterator[Form]:
    """Yields forms of DEPTH_TO_SPACE and SPACE_TO_DEPTH."""
    small, large = (1, 2, 3, 8), (1, 4, 6, 2)
    source, target = (small, large) if operator == "DEPTH_TO_SPACE" else (large, small)
    options = "DepthToSpaceOptions" if operator == "DEPTH_TO_SPACE" else "SpaceToDepthOptions"
    yield from moved(
        lambda k: simple(operator, "by 2", (tensor(source, k),), (tensor(target, k),), options, BlockSize=2)
    )
    yield simple(operator, "by 1", (tensor(source),), (tensor(source),), options, BlockSize=1)
    yield simple(
        operator, "no images", (tensor((0, *source[1:])),), (tensor((0, *target[1:])),), options, BlockSize=2
    )


def blocks_nd(operator: str) -> Iterator[Form]:
    """Yields forms of BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND."""
    is_batch = operator == "BATCH_TO_SPACE_ND"

    def form(name: str, kind: str | Kind, large: Sequence[int], cut: Any, make: Any = constant) -> Form:
        rank = len(cut)
        inner = [n + a + b for n, (a, b) in zip(large[1:], cut, strict=False)]
        small = (large[0] * 2**rank, *(n // 2 for n in inner), *large[1 + rank :])
        source, target = (small, large) if is_batch else (large, small)
        inputs = tensor(source, kind), make([2] * rank), make(cut)
        return simple(operator, name, inputs, (tensor(target, kind),))

    yield from moved(lambda k: form("1x3x4x2", k, (1, 3, 4, 2), [[1, 0], [0, 0]]))
    for kind in FEW:
        for make in (constant, fed):
            yield form(f"{kind} rank 3 {make.__name__}", kind, (1, 4, 2), [[0, 0]], make)
            yield form(f"{kind} rank 4 {make.__name__}", kind, (2, 4, 2, 1), [[1, 1], [0, 2]], make)


def fill(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for number in ("i32", "i64"):
            yield from varied(
                kind,
                simple(
                    operator,
                    f"{kind} {number}",
                    (constant((2, 3), number), tensor((), kind)),
                    (tensor((2, 3), kind),),
                ),
            )
    for shape in ((), (5,), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3), (0, 3)):
        for make in (constant, fed):
            yield simple(
                operator,
                f"{shape} {make.__name__}",
                (make(np.array(shape, np.int32)), tensor(())),
                (tensor(shape),),
            )


def range_(operator: str) -> Iterator[Form]:
    for kind in NUMBERS:
        if kind in ("bool", "c64", "str"):
            continue
        for numbers in ((0, 5, 1), (5, 0, -2), (1, 1, 1), (0, 7, 3)):
            if kind.lstrip("q")[0] == "u" and min(numbers) < 0:
                continue
            for make in (constant, fed):
                size = len(range(*numbers))
                inputs = [make(n, kind) for n in numbers]
                yield simple(operator, f"{kind} {numbers} {make.__name__}", inputs, (tensor((size,), kind),))


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "BATCH_TO_SPACE_ND": blocks_nd,
    "BROADCAST_ARGS": broadcast_args,
    "BROADCAST_TO": broadcast_to,
    "DEPTH_TO_SPACE": blocks_2d,
    "DILATE": dilate,
    "FILL": fill,
    "GATHER": gather,
    "GATHER_ND": gather_nd,
    "MATRIX_DIAG": matrices,
    "MATRIX_SET_DIAG": matrices,
    "MIRROR_PAD": pads,
    "ONE_HOT": one_hot,
    "PAD": pads,
    "PADV2": pads,
    "RANGE": range_,
    "SCATTER_ND": scatter_nd,
    "SPACE_TO_BATCH_ND": blocks_nd,
    "SPACE_TO_DEPTH": blocks_2d,
    "SPARSE_TO_DENSE": sparse_to_dense,
    "TILE": tile,
}
