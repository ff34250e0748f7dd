"""Operators that search, look up, count and normalise, and type conversions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sweep.form import (
    ALL,
    KINDS,
    NUMBERS,
    QUANTIZED,
    Form,
    constant,
    fed,
    rescaled,
    simple,
    tensor,
    variants,
    varied,
)


def top(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for count, places in (("i32", "i32"), ("i16", "i32"), ("i32", "i16"), ("i64", "i64")):
            inputs = tensor((3, 5), kind), constant(2, count)
            form = simple(
                operator, f"{kind} {count} {places}", inputs, (tensor((3, 2), kind), tensor((3, 2), places))
            )
            yield from varied(kind, form) if (count, places) == ("i32", "i32") else (form,)
    for shape in ((5,), (2, 3, 5), (2, 1, 2, 2, 5), (0, 5)):
        for make in (constant, fed):
            outputs = tensor((*shape[:-1], 2)), tensor((*shape[:-1], 2), "i32")
            yield simple(operator, f"{shape} {make.__name__}", (tensor(shape), make(2)), outputs)
    yield simple(operator, "list", (tensor((3, 5)), constant((2,))), (tensor((3, 2)), tensor((3, 2), "i32")))


def unique(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for places, number in (("i32", 2), ("i64", 4)):
            source = tensor((9,), kind, low=0, high=4) if kind[0] in "iqu" else tensor((9,), kind)
            yield simple(
                operator,
                f"{kind} {places}",
                (source,),
                (tensor((9,), kind), tensor((9,), places)),
                "UniqueOptions",
                IdxOutType=number,
            )
    yield simple(
        operator,
        "nothing",
        (tensor((0,)),),
        (tensor((0,)), tensor((0,), "i32")),
        "UniqueOptions",
        IdxOutType=2,
    )


def where(operator: str) -> Iterator[Form]:
    for kind in ALL:
        yield from varied(kind, simple(operator, kind, (tensor((3, 4), kind),), (tensor((0, 2), "i64"),)))
    for shape in ((), (5,), (2, 3, 2), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3), (0, 3)):
        yield simple(operator, f"{shape}", (tensor(shape, "bool"),), (tensor((0, len(shape)), "i64"),))


def segments(operator: str) -> Iterator[Form]:
    is_plain = operator == "SEGMENT_SUM"
    for kind in ALL:
        for number in ("i32", "i64"):
            inputs = [tensor((3, 2), kind), fed((0, 0, 2), number)]
            if not is_plain:
                inputs.append(constant(4, number))
            form = simple(operator, f"{kind} {number}", inputs, (tensor((3 if is_plain else 4, 2), kind),))
            yield from varied(kind, form) if number == "i32" else (form,)
    for shape in ((3,), (3, 2, 2), (3, 1, 2, 2, 1), (3, 1, 2, 1, 2, 1), (0, 2)):
        inputs = [tensor(shape), fed(np.zeros(shape[0], np.int32))]
        if not is_plain:
            inputs.append(fed(2))
        rows = 2 if not is_plain else min(1, shape[0])
        yield simple(operator, f"{shape}", inputs, (tensor((rows, *shape[1:])),))
    if not is_plain:
        yield simple(operator, "outside", (tensor((3, 2)), fed((0, -1, 1)), constant(2)), (tensor((2, 2)),))
        yield simple(
            operator,
            "ids of rank 2",
            (tensor((2, 2, 3)), fed(((0, 1), (1, 1))), constant(2)),
            (tensor((2, 3)),),
        )


def bucketize(operator: str) -> Iterator[Form]:
    for kind in NUMBERS:
        for boundaries in ([-1.0, 0.0, 2.5], [], [1.0]):
            values = {"Boundaries": np.array(boundaries, np.float32)}
            yield from varied(
                kind,
                simple(
                    operator,
                    f"{kind} {len(boundaries)}",
                    (tensor((3, 4), kind),),
                    (tensor((3, 4), "i32"),),
                    "BucketizeOptions",
                    **values,
                ),
            )


def cast(operator: str) -> Iterator[Form]:
    codes = {
        "f32": 0,
        "f16": 1,
        "i32": 2,
        "u8": 3,
        "i64": 4,
        "bool": 6,
        "i16": 7,
        "c64": 8,
        "i8": 9,
        "f64": 10,
        "u64": 12,
        "u32": 15,
        "u16": 16,
    }
    kinds = [*codes, "q8z", "qu8z", "q16"]
    for source in kinds:
        for target in kinds:
            values = {"InDataType": codes.get(source, 9), "OutDataType": codes.get(target, 9)}
            low = 0 if target.lstrip("q")[0] == "u" and source[0] in "fi" else None
            form = simple(
                operator,
                f"{source} to {target}",
                (tensor((3, 4), source, low=low),),
                (tensor((3, 4), target),),
            )
            yield form
            if source == "f32":
                yield replace(form, name=f"{form.name}, options", options="CastOptions", values=values)
    yield from variants(simple(operator, "variants", (tensor((3, 4)),), (tensor((3, 4), "i32"),)))
    for shape in ((), (0,), (2, 1, 3, 2), (1, 1, 2, 2, 1, 3)):
        yield simple(operator, f"{shape}", (tensor(shape),), (tensor(shape, "i32"),))
    for pair in ((-1e20, 1e20), (-np.inf, np.inf)):
        yield simple(operator, f"{pair[0]} and {pair[1]} to i32", (fed(pair, "f32"),), (tensor((2,), "i32"),))


def bitcast(operator: str) -> Iterator[Form]:
    for source, target, old, new in (
        ("f32", "i32", (2, 3), (2, 3)), ("i32", "f32", (2, 3), (2, 3)), ("i32", "u32", (2,), (2,)), ("i64", "i32", (2,), (2, 2)),
        ("i32", "i64", (3, 2), (3,)), ("u8", "u32", (2, 4), (2,)), ("f32", "u8", (2,), (2, 4)), ("i16", "u16", (2, 2), (2, 2)),
        ("f16", "i16", (2, 2), (2, 2)), ("i8", "u8", (2, 2), (2, 2)), ("f64", "i64", (2, 2), (2, 2)), ("u8", "i8", (), ()), ("f32", "i32", (), ()),
        ("q8z", "u8", (2, 2), (2, 2)), ("i16", "i8", (3,), (3, 2)), ("i16", "u64", (3, 4), (3,)), ("f32", "f32", (3,), (3,)),
    ):  # fmt: skip
        yield simple(
            operator,
            f"{source} to {target} {old}",
            (tensor(old, source, low=1, high=3),),
            (tensor(new, target),),
        )


def quantize(operator: str) -> Iterator[Form]:
    for source in ("f32", "f16", *QUANTIZED, "q32"):
        for target in QUANTIZED:
            form = simple(
                operator,
                f"{source} to {target}",
                (tensor((8, 40), source),),
                (tensor((8, 40), rescaled(target)),),
            )
            yield from variants(form) if source in ("f32", "q8z") else (form,)
    for shape in ((), (0,), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3)):
        yield simple(operator, f"{shape}", (tensor(shape),), (tensor(shape, "q8z"),))
    scales = replace(KINDS["q8"], scale=(0.02, 0.03, 0.05), zero=(0, 0, 0))
    for axis in (0, 1, 3):
        lengths = [2, 2, 2, 2]
        lengths[axis] = 3
        result = tensor(lengths, scales, axis=axis)
        yield simple(operator, f"by channel {axis}", (tensor(lengths),), (result,))


def dequantize(operator: str) -> Iterator[Form]:
    for source in ("f16", *QUANTIZED, "q32"):
        for fixed in (False, True):
            for target in ("f32",):
                yield simple(
                    operator,
                    f"{source} to {target}{' fixed' if fixed else ''}",
                    (tensor((8, 40), source, is_constant=fixed),),
                    (tensor((8, 40), target),),
                )
    for shape in ((), (0,), (2, 1, 3, 2), (1, 2, 1, 3, 2), (1, 1, 2, 2, 1, 3)):
        yield simple(operator, f"{shape}", (tensor(shape, "q8z"),), (tensor(shape),))
    yield from variants(simple(operator, "variants", (tensor((2, 3), "q8z"),), (tensor((2, 3)),)))
    for name, zeros in (("by channel", (0, 0, 0)), ("by channel with zero points", (1, -2, 3))):
        for source in ("INT8", "UINT8"):
            kind = replace(
                KINDS["q8"],
                type=source,
                scale=(0.02, 0.03, 0.05),
                zero=zeros if source == "INT8" else tuple(z + 128 for z in zeros),
            )
            for fixed in (False, True):
                for axis in (0, 1):
                    rows = (3, 4) if axis == 0 else (4, 3)
                    yield simple(
                        operator,
                        f"{source} {name} {axis}{' fixed' if fixed else ''}",
                        (tensor(rows, kind, axis=axis, is_constant=fixed),),
                        (tensor(rows),),
                    )
    packed = bytes(range(6))
    for zero in (0, 2):
        kind = replace(KINDS["q8"], type="INT4", scale=(0.1,), zero=(zero,))
        source4 = tensor((3, 4), kind, value=np.zeros((3, 4), np.int8), data=packed, is_constant=True)
        yield simple(operator, f"int4 zero point {zero}", (source4,), (tensor((3, 4)),))


def fake_quant(operator: str) -> Iterator[Form]:
    for kind in ("f32",):
        for bits in (2, 8, 16):
            for narrow in (0, 1):
                values = {"Min": -1.5, "Max": 2.0, "NumBits": bits, "NarrowRange": narrow}
                yield from variants(
                    simple(
                        operator,
                        f"{kind} {bits} {narrow}",
                        (tensor((3, 4), kind),),
                        (tensor((3, 4), kind),),
                        "FakeQuantOptions",
                        **values,
                    )
                )


def softmax(operator: str) -> Iterator[Form]:
    """Yields forms of SOFTMAX and LOG_SOFTMAX."""
    options: dict[str, Any] = {"options": "SoftmaxOptions", "Beta": 1.0} if operator == "SOFTMAX" else {}

    def form(name: str, kind: Any, shape: Sequence[int], result: Any, **more: float) -> Form:
        return simple(operator, name, (tensor(shape, kind),), (tensor(shape, result),), **{**options, **more})

    def result_of(kind: str) -> Any:
        found = KINDS[kind]
        if not found.is_quantized:
            return found
        if operator == "LOG_SOFTMAX":
            return replace(found, scale=(16 / 256,), zero=(127 if found.type == "INT8" else 255,))
        return replace(
            found,
            scale=(1 / (32768 if found.type == "INT16" else 256),),
            zero=({"INT8": -128}.get(found.type, 0),),
        )

    for kind in NUMBERS:
        yield from varied(kind, form(kind, kind, (2, 40), result_of(kind)))
    for kind in ("f32", "q8z", "qu8z", "q16"):
        for shape in ((), (5,), (2, 3, 4), (2, 1, 3, 4), (1, 2, 1, 3, 4), (1, 1, 2, 2, 1, 4), (0, 3)):
            yield form(f"{kind} {shape}", kind, shape, result_of(kind))
        if operator == "SOFTMAX":
            yield form(f"{kind} beta", kind, (2, 5), result_of(kind), Beta=0.3)
            if kind == "f32":
                yield form("negative beta", kind, (2, 5), result_of(kind), Beta=-0.7)
        yield form(f"{kind} to int16", kind, (2, 5), replace(KINDS["q16"], scale=(1 / 32768,)))
        yield form(f"{kind} to another scale", kind, (2, 5), rescaled(kind))


def normalization(operator: str) -> Iterator[Form]:
    """Yields forms of L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""
    is_l2 = operator == "L2_NORMALIZATION"
    fields: dict[str, Any] = {} if is_l2 else {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.75}
    options = "L2NormOptions" if is_l2 else "LocalResponseNormalizationOptions"
    for kind in NUMBERS:
        target = KINDS[kind]
        if target.is_quantized:
            target = replace(target, scale=(1 / 128,), zero=(128 if target.type == "UINT8" else 0,))
        yield from varied(
            kind,
            simple(
                operator,
                kind,
                (tensor((1, 2, 3, 4), kind),),
                (tensor((1, 2, 3, 4), target),),
                options,
                **fields,
            ),
        )
        for shape in ((5,), (2, 3), (2, 3, 4), (1, 2, 1, 3, 4), (0, 2, 2, 3)):
            yield simple(
                operator,
                f"{kind} {shape}",
                (tensor(shape, kind),),
                (tensor(shape, target),),
                options,
                **fields,
            )
    if is_l2:
        for activation in range(1, 6):
            yield simple(
                operator,
                f"activation {activation}",
                (tensor((2, 3)),),
                (tensor((2, 3)),),
                options,
                FusedActivationFunction=activation,
            )


def resizing(operator: str) -> Iterator[Form]:
    options = "ResizeBilinearOptions" if operator == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    for kind in ALL:
        for align, half in ((0, 0), (1, 0), (0, 1)):
            for size in ((6, 7), (2, 2)):
                inputs = tensor((1, 3, 4, 2), kind), constant(size)
                form = simple(
                    operator,
                    f"{kind} align {align} half {half} to {size}",
                    inputs,
                    (tensor((1, *size, 2), kind),),
                    options,
                    AlignCorners=align,
                    HalfPixelCenters=half,
                )
                yield from varied(kind, form) if (align, half) == (0, 0) else (form,)
        if kind in QUANTIZED:
            yield replace(form, name=f"{kind} other scale", outputs=(tensor((1, 2, 2, 2), rescaled(kind)),))
    yield simple(operator, "fed size", (tensor((1, 3, 4, 2)), fed((5, 5))), (tensor((1, 5, 5, 2)),), options)
    yield simple(operator, "no images", (tensor((0, 3, 4, 2)), fed((5, 5))), (tensor((0, 5, 5, 2)),), options)
    for kind in ("f32", "q8z"):
        for shape, size in (
            ((1, 3, 4, 0), (5, 5)),
            ((1, 3, 4, 2), (0, 5)),
            ((1, 0, 4, 2), (0, 5)),
            ((1, 3, 0, 2), (3, 0)),
            ((1, 3, 0, 2), (3, 3)),
        ):
            inputs = tensor(shape, kind), constant(size)
            output = tensor((shape[0], *size, shape[3]), kind)
            yield simple(operator, f"{kind} {shape} to {size}", inputs, (output,), options)


def complexes(operator: str) -> Iterator[Form]:
    for kind, result in (("c64", "f32"), ("f32", "f32")):
        yield from variants(simple(operator, kind, (tensor((2, 3), kind),), (tensor((2, 3), result),)))
    for shape in ((), (0,), (2, 1, 3, 2), (1, 1, 2, 2, 1, 3)):
        yield simple(operator, f"{shape}", (tensor(shape, "c64"),), (tensor(shape),))


def spectral(operator: str) -> Iterator[Form]:
    for shape in ((4, 8), (2, 4, 8), (1, 2, 2, 4), (3, 5, 6)):
        for length in ((4, 8), (2, 4), (8, 16), (1, 2)):
            for make in (constant, fed):
                result = (*shape[:-2], length[0], length[1] // 2 + 1)
                yield replace(
                    simple(
                        operator,
                        f"{shape} to {length} {make.__name__}",
                        (tensor(shape), make(length)),
                        (tensor(result, "c64"),),
                    ),
                    tolerance=1e-4,
                )


def lookup(operator: str) -> Iterator[Form]:
    """Yields forms of EMBEDDING_LOOKUP and HASHTABLE_LOOKUP."""
    for kind in ALL:
        if operator == "EMBEDDING_LOOKUP":
            yield from varied(
                kind, simple(operator, kind, (fed((2, 0)), tensor((3, 4), kind)), (tensor((2, 4), kind),))
            )
            if kind.startswith("q"):
                table = tensor((3, 4), kind, is_constant=True)
                yield simple(operator, f"{kind} to f32", (fed((2, 0)), table), (tensor((2, 4)),))
        else:
            inputs = fed((2, 5, 9)), fed((2, 5, 7)), tensor((3, 4), kind)
            hits = tensor((3,), replace(KINDS["qu8"], scale=(1.0,), zero=(0,)))
            yield from varied(kind, simple(operator, kind, inputs, (tensor((3, 4), kind), hits)))
    if operator == "EMBEDDING_LOOKUP":
        for shape in ((3,), (3, 2, 2), (3, 1, 2, 1, 2)):
            yield simple(operator, f"{shape}", (fed((2, 0)), tensor(shape)), (tensor((2, *shape[1:])),))
        packed = tensor(
            (3, 4),
            replace(KINDS["q8"], type="INT4"),
            value=np.zeros((3, 4), np.int8),
            data=bytes(range(6)),
            is_constant=True,
        )
        yield simple(operator, "int4 to f32", (fed((2, 0)), packed), (tensor((2, 4)),))
        scales = replace(KINDS["q8"], scale=(0.02, 0.03, 0.05), zero=(0, 0, 0))
        yield simple(
            operator,
            "by row to f32",
            (fed((2, 0)), tensor((3, 4), scales, is_constant=True)),
            (tensor((2, 4)),),
        )


def sparse_lookup(operator: str) -> Iterator[Form]:
    for combiner in (0, 1, 2):
        ids, places, shape = fed((1, 2, 0)), fed(((0, 0), (2, 0), (2, 1))), fed((3, 2))
        inputs = ids, places, shape, tensor((3,), low=0.5), tensor((4, 5))
        yield simple(
            operator,
            f"combiner {combiner}",
            inputs,
            (tensor((3, 5)),),
            "EmbeddingLookupSparseOptions",
            Combiner=combiner,
        )


def projection(operator: str) -> Iterator[Form]:
    for number in (1, 2):
        for kind in ("i32", "f32", "i64", "q8"):
            for weight in (False, True):
                inputs = [
                    tensor((3, 2), "f32"),
                    tensor((4, 2), kind),
                    *([tensor((4,), "f32", low=0.5)] if weight else []),
                ]
                result = tensor((3 if number == 1 else 6,), "i32")
                yield simple(
                    operator,
                    f"{number} {kind} {weight}",
                    inputs,
                    (result,),
                    "LSHProjectionOptions",
                    Type=number,
                )


def suppression(operator: str) -> Iterator[Form]:
    """Yields forms of NON_MAX_SUPPRESSION_V4 and V5."""
    boxes = [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [0, -0.1, 1, 0.9],
        [0, 10, 1, 11],
        [0, 10.1, 1, 11.1],
        [0, 100, 1, 101],
    ]
    is_soft = operator.endswith("V5")
    for make in (constant, fed):
        for count in (3, 6, 0):
            inputs = [
                fed(boxes, "f32"),
                fed((0.9, 0.75, 0.6, 0.95, 0.5, 0.3), "f32"),
                make(count),
                make(0.5, "f32"),
                make(0.4, "f32"),
            ]
            if is_soft:
                inputs.append(make(0.5, "f32"))
            outputs = [tensor((count,), "i32"), *([tensor((count,))] if is_soft else []), tensor((), "i32")]
            yield simple(operator, f"{count} {make.__name__}", inputs, outputs)


def grams(operator: str) -> Iterator[Form]:
    text = np.array([b"The quick brown fox"], object)
    for skip in (0, 1, 2):
        for every in (0, 1):
            values = {"NgramSize": 2, "MaxSkipSize": skip, "IncludeAllNgrams": every}
            yield simple(
                operator,
                f"{skip} {every}",
                (fed(text, "str"),),
                (tensor((0,), "str"),),
                "SkipGramOptions",
                **values,
            )


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "BITCAST": bitcast,
    "BUCKETIZE": bucketize,
    "CAST": cast,
    "COMPLEX_ABS": complexes,
    "DEQUANTIZE": dequantize,
    "EMBEDDING_LOOKUP": lookup,
    "EMBEDDING_LOOKUP_SPARSE": sparse_lookup,
    "FAKE_QUANT": fake_quant,
    "HASHTABLE_LOOKUP": lookup,
    "IMAG": complexes,
    "L2_NORMALIZATION": normalization,
    "LOCAL_RESPONSE_NORMALIZATION": normalization,
    "LOG_SOFTMAX": softmax,
    "LSH_PROJECTION": projection,
    "NON_MAX_SUPPRESSION_V4": suppression,
    "NON_MAX_SUPPRESSION_V5": suppression,
    "QUANTIZE": quantize,
    "REAL": complexes,
    "RESIZE_BILINEAR": resizing,
    "RESIZE_NEAREST_NEIGHBOR": resizing,
    "RFFT2D": spectral,
    "SEGMENT_SUM": segments,
    "SKIP_GRAM": grams,
    "SOFTMAX": softmax,
    "TOPK_V2": top,
    "UNIQUE": unique,
    "UNSORTED_SEGMENT_MAX": segments,
    "UNSORTED_SEGMENT_MIN": segments,
    "UNSORTED_SEGMENT_PROD": segments,
    "UNSORTED_SEGMENT_SUM": segments,
    "WHERE": where,
}
