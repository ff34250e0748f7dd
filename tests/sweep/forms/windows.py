"""Convolutions, pooling, and matrix products with various types of data, weights and bias."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sweep.form import KINDS, Form, Kind, Tensor, simple, tensor, variants, varied

SAME, VALID = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Combination of kinds of data, weights, bias and result.

    `channels` selects per-channel weights.
    """

    name: str
    data: str
    weights: str
    bias: str | None
    result: str
    channels: bool = False


MIXES = (
    Mix(name="float", data="f32", weights="f32", bias="f32", result="f32"),
    Mix(name="float16", data="f16", weights="f16", bias="f16", result="f16"),
    Mix(name="float, half weights", data="f32", weights="f16", bias="f32", result="f32"),
    Mix(name="int8", data="q8z", weights="q8", bias="i32", result="q8z"),
    Mix(name="int8 by channel", data="q8z", weights="q8", bias="i32", result="q8z", channels=True),
    Mix(name="int8 weights with zero point", data="q8z", weights="q8z", bias="i32", result="q8z"),
    Mix(name="uint8", data="qu8z", weights="qu8z", bias="i32", result="qu8z"),
    Mix(name="uint8 by int8", data="qu8z", weights="q8", bias="i32", result="qu8z"),
    Mix(name="int16", data="q16", weights="q8", bias="i64", result="q16"),
    Mix(name="int16 by channel", data="q16", weights="q8", bias="i64", result="q16", channels=True),
    Mix(name="int16 with bias of 32 bits", data="q16", weights="q8", bias="i32", result="q16"),
    Mix(
        name="int16 by channel with bias of 32 bits",
        data="q16",
        weights="q8",
        bias="i32",
        result="q16",
        channels=True,
    ),
    Mix(name="int16 with zero point", data="q16z", weights="q8", bias="i64", result="q16z"),
    Mix(name="hybrid", data="f32", weights="q8", bias="f32", result="f32"),
    Mix(name="hybrid by channel", data="f32", weights="q8", bias="f32", result="f32", channels=True),
    Mix(name="hybrid uint8", data="f32", weights="qu8", bias="f32", result="f32"),
    Mix(name="int4", data="q8z", weights="q4", bias="i32", result="q8z"),
    Mix(name="int4 by channel", data="q8z", weights="q4", bias="i32", result="q8z", channels=True),
    Mix(name="hybrid int4", data="f32", weights="q4", bias="f32", result="f32"),
    Mix(name="hybrid int4 by channel", data="f32", weights="q4", bias="f32", result="f32", channels=True),
    Mix(name="int32", data="i32", weights="i32", bias="i32", result="i32"),
    Mix(name="int64", data="i64", weights="i64", bias="i64", result="i64"),
    Mix(name="int8 to int16", data="q8z", weights="q8", bias="i32", result="q16"),
)
#: Combinations whose ranks, options and biases are varied.
COMMON = ("float", "int8 by channel", "uint8", "int16 by channel", "hybrid", "hybrid by channel", "int8")


def weights_of(mix: Mix, shape: Sequence[int], axis: int) -> Tensor:
    """Returns the weights of a combination; 4-bit ones are packed."""
    count = shape[axis]
    if mix.weights == "q4":
        scales = tuple(0.02 + 0.01 * n for n in range(count)) if mix.channels else (0.03,)
        kind = Kind(type="INT4", scale=scales, zero=(0,) * len(scales))
        size = int(np.prod(shape))
        packed = np.random.default_rng(size).integers(0, 256, -(-size // 2), np.uint8).tobytes()
        unread = np.zeros(shape, np.int8)
        return Tensor(shape=tuple(shape), kind=kind, axis=axis, value=unread, data=packed, is_constant=True)
    kind = KINDS[mix.weights]
    if mix.channels:
        kind = replace(kind, scale=tuple(0.01 + 0.007 * n for n in range(count)), zero=(0,) * count)
    limits: dict[str, Any] = {"low": -100, "high": 100} if mix.weights in ("q8", "q8z") else {}
    return tensor(shape, kind, axis=axis, is_constant=True, **limits)


def bias_of(mix: Mix, weights: Tensor) -> Tensor | None:
    """Returns the bias of a combination, whose scales are the products of those of data and
    weights.
    """
    if mix.bias is None:
        return None
    kind = KINDS[mix.bias]
    data = KINDS[mix.data]
    if data.is_quantized:
        scales = tuple(data.scale[0] * s for s in weights.kind.scale)
        kind = replace(kind, scale=scales, zero=(0,) * len(scales))
    length = weights.shape[weights.axis]
    limits: dict[str, Any] = {"low": -500, "high": 500} if data.is_quantized else {}
    return tensor((length,), kind, is_constant=True, **limits)


def _window(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == SAME else max(0, (size - reach) // stride + 1)


def convolution(operator: str) -> Iterator[Form]:
    """Yields forms of CONV_2D and DEPTHWISE_CONV_2D."""
    is_depthwise = operator == "DEPTHWISE_CONV_2D"

    def form(
        name: str, mix: Mix, *, size: tuple[int, int, int, int] = (1, 5, 6, 4), kernel: tuple[int, int] = (3, 2),
        channels: int = 4, groups: int = 1, stride: int = 1, dilation: int = 1, padding: int = SAME, activation: int = 0,
    ) -> Form:  # fmt: skip
        batch, height, width, depth = size
        shape = (1, *kernel, channels) if is_depthwise else (channels, *kernel, depth // groups)
        weights = weights_of(mix, shape, 3 if is_depthwise else 0)
        result = (
            batch,
            _window(height, kernel[0], stride, dilation, padding),
            _window(width, kernel[1], stride, dilation, padding),
            channels,
        )
        fields = {
            "Padding": padding,
            "StrideW": stride,
            "StrideH": stride,
            "DilationWFactor": dilation,
            "DilationHFactor": dilation,
            "FusedActivationFunction": activation,
        }
        if is_depthwise:
            fields["DepthMultiplier"] = channels // depth
        inputs = tensor(size, mix.data), weights, bias_of(mix, weights)
        options = "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions"
        found = simple(
            operator, f"{mix.name}, {name}", inputs, (tensor(result, mix.result),), options, **fields
        )
        return replace(found, tolerance=2e-3 if mix.name == "float16" else 1e-5)

    for mix in MIXES:
        plain = form("plain", mix)
        yield from varied(mix.data, plain)
        yield replace(plain, name=f"{mix.name}, no bias", inputs=plain.inputs[:2])
        yield replace(plain, name=f"{mix.name}, bias left out", inputs=(*plain.inputs[:2], None))
        weights = plain.inputs[1]
        if weights is not None and weights.data is None:
            unfixed = replace(weights, is_constant=False)
            yield replace(
                plain, name=f"{mix.name}, weights fed", inputs=(plain.inputs[0], unfixed, plain.inputs[2])
            )
        yield form("valid, stride 2", mix, padding=VALID, stride=2)
        yield form("dilation 2", mix, dilation=2)
        yield form("1x1", mix, kernel=(1, 1))
        if mix.name not in COMMON:
            continue
        for activation in range(1, 6):
            yield form(f"activation {activation}", mix, activation=activation)
        yield form("stride 3, dilation 2", mix, stride=3, dilation=2)
        yield form("many", mix, channels=8, size=(2, 4, 4, 4))
        if not is_depthwise:
            yield form("groups", mix, groups=2)
            yield form("groups of one", mix, groups=4, channels=8)
        yield form("no images", mix, size=(0, 5, 6, 4))
        yield form("no rows", mix, size=(1, 0, 6, 4))
        yield form("too few rows", mix, size=(1, 2, 6, 4), padding=VALID)
        yield form("multiplier 2", mix, channels=8)
        data, _, bias = plain.inputs
        assert bias is not None
        wide = replace(bias, shape=(1, 1, 1, bias.shape[0]))
        yield replace(plain, name=f"{mix.name}, bias of rank 4", inputs=(data, weights, wide))


def transposed(operator: str) -> Iterator[Form]:
    """Yields forms of TRANSPOSE_CONV."""

    def form(
        name: str,
        mix: Mix,
        *,
        stride: int = 2,
        padding: int = SAME,
        activation: int = 0,
        bias: bool = True,
        fixed: bool = True,
    ) -> Form:
        weights = weights_of(mix, (4, 3, 2, 3), 0)
        size = (1, 3 * stride, 4 * stride, 4) if padding == SAME else (1, 2 * stride + 3, 3 * stride + 2, 4)
        shape = Tensor(shape=(4,), kind=KINDS["i32"], value=np.array(size, np.int32), is_constant=fixed)
        inputs = [shape, weights, tensor((1, 3, 4, 3), mix.data)]
        if bias:
            inputs.append(bias_of(mix, weights) or shape)
        fields = {
            "Padding": padding,
            "StrideW": stride,
            "StrideH": stride,
            "FusedActivationFunction": activation,
        }
        return simple(
            operator,
            f"{mix.name}, {name}",
            inputs,
            (tensor(size, mix.result),),
            "TransposeConvOptions",
            **fields,
        )

    for mix in MIXES:
        yield from varied(mix.data, form("plain", mix))
        yield form("no bias", mix, bias=False)
        yield form("valid", mix, padding=VALID)
        yield form("fed shape", mix, fixed=False)
        yield form("stride 1", mix, stride=1)
        if mix.name in COMMON:
            for activation in range(1, 6):
                yield form(f"activation {activation}", mix, activation=activation)


def convolution_3d(operator: str) -> Iterator[Form]:
    """Yields forms of CONV_3D and CONV_3D_TRANSPOSE."""
    is_transposed = operator == "CONV_3D_TRANSPOSE"
    for mix in MIXES:
        for stride, dilation, padding, activation in ((1, 1, 0, 0), (2, 1, 1, 1), (1, 2, 0, 3), (2, 1, 0, 4)):
            if is_transposed:
                size = (
                    tuple(n * stride for n in (3, 4, 4))
                    if padding == SAME
                    else tuple((n - 1) * stride + 2 for n in (3, 4, 4))
                )
                weights = replace(weights_of(mix, (2, 2, 2, 4, 3), 3), axis=3)
                shape = Tensor(
                    shape=(5,), kind=KINDS["i32"], value=np.array((1, *size, 4), np.int32), is_constant=True
                )
                inputs: list[Tensor | None] = [shape, weights, tensor((1, 3, 4, 4, 3), mix.data)]
                result = (1, *size, 4)
            else:
                weights = weights_of(mix, (2, 2, 2, 3, 4), 4)
                inputs = [tensor((1, 4, 5, 5, 3), mix.data), weights]
                result = (1, *(_window(n, 2, stride, dilation, padding) for n in (4, 5, 5)), 4)
            fields = {"Padding": padding, "FusedActivationFunction": activation}
            fields |= {f"Stride{axis}": stride for axis in "DWH"} | {
                f"Dilation{axis}Factor": dilation for axis in "DWH"
            }
            name = f"{mix.name}, stride {stride}, dilation {dilation}, padding {padding}, activation {activation}"
            for bias in (False, True):
                given = [*inputs, bias_of(mix, weights)] if bias else inputs
                yield simple(
                    operator,
                    f"{name}{', bias' if bias else ''}",
                    given,
                    (tensor(result, mix.result),),
                    "Conv3DOptions",
                    **fields,
                )
    if not is_transposed:
        weights = weights_of(MIXES[0], (2, 2, 2, 3, 4), 4)
        fields = {f"Stride{axis}": 1 for axis in "DWH"} | {f"Dilation{axis}Factor": 1 for axis in "DWH"}
        for size, padding in (((0, 5, 5), SAME), ((1, 5, 5), VALID), ((4, 5, 0), SAME)):
            result = (1, *(_window(n, 2, 1, 1, padding) for n in size), 4)
            yield simple(
                operator,
                f"{size}, padding {padding}",
                (tensor((1, *size, 3)), weights),
                (tensor(result),),
                "Conv3DOptions",
                Padding=padding,
                **fields,
            )


def pooling(operator: str) -> Iterator[Form]:
    """Yields forms of the three kinds of pooling."""

    def form(
        name: str,
        kind: str,
        *,
        size: Sequence[int] = (1, 5, 6, 3),
        stride: int = 2,
        padding: int = SAME,
        activation: int = 0,
        window: tuple[int, int] = (3, 2),
    ) -> Form:
        result = (
            size[0],
            _window(size[1], window[0], stride, 1, padding),
            _window(size[2], window[1], stride, 1, padding),
            size[3],
        )
        fields = {
            "Padding": padding,
            "StrideW": stride,
            "StrideH": stride,
            "FilterWidth": window[1],
            "FilterHeight": window[0],
            "FusedActivationFunction": activation,
        }
        return simple(
            operator,
            f"{kind} {name}",
            (tensor(size, kind),),
            (tensor(result, kind),),
            "Pool2DOptions",
            **fields,
        )

    for kind in ("f32", "f16", "q8", "q8z", "qu8", "qu8z", "q16", "q16z", "i32", "i64"):
        yield from variants(form("plain", kind))
        yield form("valid", kind, padding=VALID)
        for activation in range(1, 6):
            yield form(f"activation {activation}", kind, activation=activation)
        yield form("no images", kind, size=(0, 5, 6, 3))
        yield form("large window", kind, window=(9, 9), stride=1)
        yield form("no rows", kind, size=(1, 0, 6, 3))
        yield form("no columns", kind, size=(1, 5, 0, 3))
        yield form("no channels", kind, size=(1, 5, 6, 0))
        yield form("too few rows", kind, size=(1, 2, 6, 3), padding=VALID)
        yield form("no columns, valid", kind, size=(1, 5, 0, 3), padding=VALID)


def fully_connected(operator: str) -> Iterator[Form]:
    def form(
        name: str,
        mix: Mix,
        *,
        shape: Sequence[int] = (3, 6),
        units: int = 4,
        depth: int = 6,
        keep: bool = False,
        activation: int = 0,
        asymmetric: bool = False,
    ) -> Form:
        weights = weights_of(mix, (units, depth), 0)
        rows = int(np.prod(shape)) // depth if depth else 0
        result = (*shape[:-1], units) if keep else (rows, units)
        inputs = tensor(shape, mix.data), weights, bias_of(mix, weights)
        fields = {
            "KeepNumDims": keep,
            "FusedActivationFunction": activation,
            "AsymmetricQuantizeInputs": asymmetric,
        }
        found = simple(
            operator,
            f"{mix.name}, {name}",
            inputs,
            (tensor(result, mix.result),),
            "FullyConnectedOptions",
            **fields,
        )
        return replace(found, tolerance=2e-3 if mix.name == "float16" else 1e-5)

    for mix in MIXES:
        plain = form("plain", mix)
        yield from varied(mix.data, plain)
        data, weights, bias = plain.inputs
        assert weights is not None
        yield replace(plain, name=f"{mix.name}, no bias", inputs=(data, weights))
        yield replace(plain, name=f"{mix.name}, bias left out", inputs=(data, weights, None))
        if weights.data is None:
            unfixed = replace(weights, is_constant=False)
            yield replace(plain, name=f"{mix.name}, weights fed", inputs=(data, unfixed, bias))
        yield form("asymmetric", mix, asymmetric=True)
        yield form("rank 1", mix, shape=(6,))
        yield form("rank 3", mix, shape=(2, 3, 6))
        yield form("rank 3 kept", mix, shape=(2, 3, 6), keep=True)
        yield form("rank 5 kept", mix, shape=(1, 2, 1, 3, 6), keep=True)
        yield form("flattened", mix, shape=(2, 3, 2, 6), depth=12)
        if mix.name in COMMON:
            for activation in range(1, 6):
                yield form(f"activation {activation}", mix, activation=activation)
            yield form("no rows", mix, shape=(0, 6))
            yield form("one unit", mix, units=1)
            assert bias is not None
            for wide in ((1, bias.shape[0]), (1, 1, 1, bias.shape[0])):
                yield replace(
                    plain, name=f"{mix.name}, bias {wide}", inputs=(data, weights, replace(bias, shape=wide))
                )


def batch_matmul(operator: str) -> Iterator[Form]:
    def form(
        name: str,
        left: Tensor,
        right: Tensor,
        result: Any,
        *,
        x: bool = False,
        y: bool = False,
        asymmetric: bool = False,
    ) -> Form:
        a = (*left.shape[:-2], *left.shape[-2:][::-1]) if x else left.shape
        b = (*right.shape[:-2], *right.shape[-2:][::-1]) if y else right.shape
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        fields = {"AdjX": x, "AdjY": y, "AsymmetricQuantizeInputs": asymmetric}
        inputs = replace(left, shape=a), replace(right, shape=b)
        return simple(
            operator,
            name,
            inputs,
            (tensor((*batch, left.shape[-2], right.shape[-1]), result),),
            "BatchMatMulOptions",
            **fields,
        )

    for mix in MIXES:
        if mix.weights == "q4":
            continue
        right = KINDS[mix.weights]
        if mix.channels:
            right = replace(right, scale=(0.01, 0.02, 0.03, 0.05), zero=(0,) * 4)
        for x in (False, True):
            for y in (False, True):
                weights = tensor(
                    (2, 5, 4),
                    right,
                    axis=1 if y else 2,
                    is_constant=mix.channels or mix.name.startswith("hybrid"),
                )
                for asymmetric in (False, True) if "hybrid" in mix.name else (False,):
                    name = f"{mix.name}, adjoint {x} {y}{', asymmetric' if asymmetric else ''}"
                    yield from varied(
                        mix.data,
                        form(
                            name,
                            tensor((2, 3, 5), mix.data),
                            weights,
                            mix.result,
                            x=x,
                            y=y,
                            asymmetric=asymmetric,
                        ),
                    )
    for kind in ("f32", "q8z", "i32", "q16"):
        for a, b in (
            ((3, 5), (5, 4)),
            ((2, 3, 5), (5, 4)),
            ((3, 5), (2, 5, 4)),
            ((2, 1, 3, 5), (1, 2, 5, 4)),
            ((2, 1, 1, 3, 5), (2, 2, 5, 4)),
            ((1, 2, 1, 2, 3, 5), (5, 4)),
            ((0, 3, 5), (0, 5, 4)),
            ((2, 3, 0), (2, 0, 4)),
        ):
            for fixed in (False, True):
                name = f"{kind} {a} by {b}{' fixed' if fixed else ''}"
                yield form(name, tensor(a, kind), tensor(b, kind, is_constant=fixed), kind)


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "AVERAGE_POOL_2D": pooling,
    "BATCH_MATMUL": batch_matmul,
    "CONV_2D": convolution,
    "CONV_3D": convolution_3d,
    "CONV_3D_TRANSPOSE": convolution_3d,
    "DEPTHWISE_CONV_2D": convolution,
    "FULLY_CONNECTED": fully_connected,
    "L2_POOL_2D": pooling,
    "MAX_POOL_2D": pooling,
    "TRANSPOSE_CONV": transposed,
}
