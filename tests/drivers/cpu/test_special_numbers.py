"""References, first tier and compiled code agree on infinities, NaN, and the ends of integers."""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from support.cpu.first_tier import prepared, results
from support.cpu.native import DIFFERENT
from support.sweeps import sweep
from sweep.form import Array, Form, Kind, Tensor, constant, simple, tensor

from neurald import load_tflite
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGET_VARIABLE
from neurald.drivers.settings import Settings
from neurald.hal.device import PrepareOptions
from neurald.hal.execution.reference_model import ReferenceModel

#: The targets with the narrowest and with the widest registers.
_TARGETS = tuple(dict.fromkeys(DIFFERENT[end].name for end in (0, -1)))
_SAME, _VALID = 0, 1
_INFINITE = (np.inf, -np.inf)
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-41)
#: Biases beside the range of 48 bits and of 32 bits, and at the ends of 64 bits.
_LONG = [
    sign * (1 << power) + near
    for power in (31, 40, 46, 47, 48, 62)
    for sign in (1, -1)
    for near in (-1, 0, 1)
] + [(1 << 63) - 1, -1 << 63, 1 - (1 << 63)]  # fmt: skip


def _numbers(shape: Sequence[int], special: Sequence[float], share: float = 0.1) -> Array:
    """Returns small multiples of 0.5, whose sums are exact, some replaced by special numbers."""
    rng = np.random.default_rng(zlib.crc32(repr((tuple(shape), special, share)).encode()))
    numbers = rng.integers(-4, 5, shape) / 2
    chosen = np.array(special)[rng.integers(len(special), size=shape)]
    return np.where(rng.random(shape) < share, chosen, numbers).astype(np.float32)


def _fed(shape: Sequence[int], special: Sequence[float]) -> Tensor:
    return tensor(shape, value=_numbers(shape, special))


def _weights(shape: Sequence[int], special: Sequence[float]) -> Tensor:
    return constant(_numbers(shape, special, 0.03), "f32")


def _window(operator: str, data: Tensor, weights: Tensor, padding: int, stride: int = 1) -> Form:
    """Returns a convolution with windows of 3 × 3, or those of its weights."""
    images, *image, depth = data.shape
    options: dict[str, Any] = {"Padding": padding, "FusedActivationFunction": 0}
    axes = "DHW"[-len(image) :]
    options |= {f"Stride{axis}": stride for axis in axes}
    if operator == "TRANSPOSE_CONV":
        channels, *kernel, _ = weights.shape
        reach = 0 if padding == _SAME else kernel[0] - stride
        shape = (images, *(length * stride + reach for length in image), channels)
        inputs = (constant(shape), weights, data)
        return simple(operator, "", inputs, (tensor(shape),), "TransposeConvOptions", **options)
    options |= {f"Dilation{axis}Factor": 1 for axis in axes}
    is_deep, is_depthwise = len(image) == len("DHW"), operator == "DEPTHWISE_CONV_2D"
    kernel = list(weights.shape[:3] if is_deep else weights.shape[1:3])
    channels = weights.shape[0] if operator == "CONV_2D" else weights.shape[-1]
    lengths = [
        -(-length // stride) if padding == _SAME else (length - taps) // stride + 1
        for length, taps in zip(image, kernel, strict=True)
    ]
    if is_depthwise:
        options["DepthMultiplier"] = channels // depth
    name = "Conv3DOptions" if is_deep else "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions"
    return simple(operator, "", (data, weights), (tensor((images, *lengths, channels)),), name, **options)


def _convolutions() -> Iterator[Form]:
    for given, weights in ((_SPECIAL, (0.0,)), ((0.0,), _SPECIAL), (_INFINITE, _INFINITE)):
        for padding, stride in ((_SAME, 1), (_SAME, 2), (_VALID, 1)):
            for depth, channels, taps in ((1, 3, 3), (4, 16, 3), (16, 40, 2)):
                data = _fed((1, 6, 7, depth), given)
                yield _window(
                    "CONV_2D", data, _weights((channels, taps, taps, depth), weights), padding, stride
                )
            for depth, multiplier in ((3, 1), (16, 1), (8, 2)):
                data = _fed((1, 6, 7, depth), given)
                kernel = _weights((1, 3, 3, depth * multiplier), weights)
                yield _window("DEPTHWISE_CONV_2D", data, kernel, padding, stride)
            # Where the stride does not divide the window, the number of channels matters.
            for channels, taps in ((8, 4), *(((3, 3), (20, 5)) if stride > 1 else ())):
                kernel = _weights((channels, taps, taps, 3), weights)
                yield _window("TRANSPOSE_CONV", _fed((1, 4, 5, 3), given), kernel, padding, stride)
        yield _window("CONV_3D", _fed((1, 3, 4, 5, 2), given), _weights((2, 2, 2, 2, 4), weights), _SAME)
    yield from _transposed_3d()


def _transposed_3d() -> Iterator[Form]:
    """Yields CONV_3D_TRANSPOSE with strides that do not divide the window, and with dilation."""
    data = _fed((1, 2, 3, 4, 2), (*_INFINITE, np.nan))
    weights = _weights((3, 3, 3, 3, 2), (0.0,))
    for strides, dilations in (((2, 2, 2), (1, 1, 1)), ((1, 2, 3), (2, 3, 2)), ((2, 1, 2), (1, 1, 2))):
        size = (1, 2 * strides[0], 3 * strides[1], 4 * strides[2], 3)
        options: dict[str, Any] = {"Padding": _SAME, "FusedActivationFunction": 0}
        for axis, stride, dilation in zip("DHW", strides, dilations, strict=True):
            options |= {f"Stride{axis}": stride, f"Dilation{axis}Factor": dilation}
        inputs = constant(size), weights, data
        yield simple("CONV_3D_TRANSPOSE", "", inputs, (tensor(size),), "Conv3DOptions", **options)


def _pools() -> Iterator[Form]:
    for operator in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
        for shape, taps, stride in (((1, 7, 6, 1), 3, 2), ((1, 6, 6, 16), 2, 2), ((1, 5, 5, 20), 3, 1)):
            for special in (_SPECIAL, _INFINITE, (-np.inf,)):
                lengths = [-(-length // stride) for length in shape[1:3]]
                options = {"StrideW": stride, "StrideH": stride, "FilterWidth": taps, "FilterHeight": taps}
                yield simple(
                    operator,
                    "",
                    (_fed(shape, special),),
                    (tensor((1, *lengths, shape[3])),),
                    "Pool2DOptions",
                    Padding=_SAME,
                    FusedActivationFunction=0,
                    **options,
                )


def _reductions() -> Iterator[Form]:
    for operator in ("REDUCE_MAX", "REDUCE_MIN", "SUM", "MEAN", "REDUCE_PROD"):
        for shape, axes in (((3, 40), (1,)), ((40, 3), (0,)), ((2, 5, 4, 3), (1, 3)), ((100,), (0,))):
            for special in (_SPECIAL, (np.nan,), (np.inf,), (-np.inf,)):
                result = tuple(length for axis, length in enumerate(shape) if axis not in axes)
                yield simple(
                    operator,
                    "",
                    (_fed(shape, special), constant(axes)),
                    (tensor(result),),
                    "ReducerOptions",
                    KeepDims=False,
                )


def _products() -> Iterator[Form]:
    for special in (_SPECIAL, _INFINITE):
        for rows, depth, units in ((1, 7, 3), (5, 40, 33)):
            inputs = _fed((rows, depth), special), _weights((units, depth), special)
            options = {"FusedActivationFunction": 0}
            yield simple(
                "FULLY_CONNECTED", "", inputs, (tensor((rows, units)),), "FullyConnectedOptions", **options
            )
            given = _fed((rows, depth), special), _fed((depth, units), special)
            yield simple(
                "BATCH_MATMUL",
                "",
                given,
                (tensor((rows, units)),),
                "BatchMatMulOptions",
                AdjX=False,
                AdjY=False,
            )


def _long_biases() -> Iterator[Form]:
    """Yields layers of INT16 with biases of INT64, whose multipliers are small and large."""
    for scale in (2.0**-10, 2.0**-7, 2.0**30):
        rng = np.random.default_rng(1)
        units, step = len(_LONG), 2.0**-7
        narrow, wide = (
            Kind(type="INT8", scale=(step,), zero=(0,)),
            Kind(type="INT64", scale=(step * step,), zero=(0,)),
        )
        given = Kind(type="INT16", scale=(step,), zero=(0,))
        weights = constant(rng.integers(-127, 128, (units, 16)), narrow)
        data = tensor((3, 16), given, value=rng.choice([-32768, 32767, 0, 5], (3, 16)).astype(np.int16))
        result = tensor((3, units), Kind(type="INT16", scale=(scale,), zero=(0,)))
        yield simple(
            "FULLY_CONNECTED",
            "",
            (data, weights, constant(_LONG, wide)),
            (result,),
            "FullyConnectedOptions",
            FusedActivationFunction=0,
        )
        kernel = constant(rng.integers(-127, 128, (units, 1, 1, 16)), narrow)
        image = tensor((1, 1, 3, 16), given, value=np.asarray(data.value)[None, None])
        pixels = tensor((1, 1, 3, units), result.kind)
        options = dict.fromkeys(("StrideW", "StrideH", "DilationWFactor", "DilationHFactor"), 1)
        yield simple(
            "CONV_2D",
            "",
            (image, kernel, constant(_LONG, wide)),
            (pixels,),
            "Conv2DOptions",
            Padding=_VALID,
            FusedActivationFunction=0,
            **options,
        )


def _described(form: Form) -> str:
    return f"{form.operator} {[each.shape for each in form.inputs if each]} {dict(form.values)}"


def _difference(found: Array, expected: Array) -> str:
    if expected.dtype.kind == "f":
        is_same = np.isclose(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    else:
        is_same = found == expected
    if is_same.all():
        return ""
    place = tuple(np.argwhere(~is_same)[0])
    return f"{np.sum(~is_same)} of {is_same.size}, at {place} {found[place]}, not {expected[place]}"


FAMILIES = {
    "convolutions": _convolutions,
    "pools": _pools,
    "reductions": _reductions,
    "products": _products,
    "long biases": _long_biases,
}


@sweep("family", FAMILIES)
def test_tiers_agree_with_references(family: str) -> None:
    wrong, count = [], 0
    for form in FAMILIES[family]():
        case = form.case()
        model, feeds = load_tflite(case.content), list(case.feeds)
        with np.errstate(all="ignore"):
            expected = results(ReferenceModel(model), model, feeds)
            for target in _TARGETS:
                settings = Settings("NEURALD_", environment={TARGET_VARIABLE: target})
                compiled = CpuDevice(settings=settings).prepare_model(model, PrepareOptions(threads=1))
                assert isinstance(compiled, CpuPreparedModel | ReferenceModel)
                for tier, each in (("first tier", prepared(model, target)), ("compiled", compiled)):
                    count += 1
                    why = _difference(results(each, model, feeds)[0], expected[0])
                    if why:
                        wrong.append(f"{_described(form)}, {tier}, {target}: {why}")
    assert wrong == []
    assert count >= 4
