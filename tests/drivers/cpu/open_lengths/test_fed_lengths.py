"""Models whose lengths follow from inputs have one code for all lengths, also 0 and 1.

So have slices at such indices, which may also count from the end.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice

Array = np.ndarray[Any, Any]

#: Operator, shape of its data (None if it has none), a constant input, options, and sets of
#: lengths.
_Case = tuple[str, Sequence[int] | None, Array | None, dict[str, Any], Sequence[Any]]
_PADS = ([[0, 0], [0, 0]], [[1, 0], [0, 2]], [[40, 7], [0, 0]], [[3, 1], [130, 1]])
_CASES: dict[str, _Case] = {
    "pad": ("PAD", (6, 5), None, {}, _PADS),
    "mirror": ("MIRROR_PAD", (6, 5), None, {"Mode": 1}, ([[0, 0], [0, 0]], [[6, 1], [0, 5]])),
    "top": ("TOPK_V2", (4, 50), None, {}, (9, 0, 1, 2, 50, 3)),
    "one hot": ("ONE_HOT", None, np.array([0, 1, -1, 50]), {"Axis": -1}, (5, 0, 1, 2, 200)),
    "one hot first": ("ONE_HOT", None, np.array([0, 3]), {"Axis": 0}, (5, 0, 1, 2)),
    "segments": ("UNSORTED_SEGMENT_SUM", (5, 4), np.array([0, 1, 8, -1, 1]), {}, (9, 10, 300)),
    "tile": ("TILE", (3, 5), None, {}, ([2, 3], [0, 1], [1, 1], [70, 2])),
    "fill": ("FILL", (), None, {}, ([2, 3], [0, 1], [1, 1], [150, 2])),
    "slice": (
        "SLICE",
        (30, 40),
        None,
        {},
        ([[5, 9], [2, 3]], [[0, 0], [-1, 0]], [[29, 1], [1, -1]], [[30, 0], [-1, 40]], [[3, 39], [20, 1]]),
    ),
    "strided": (
        "STRIDED_SLICE",
        (30, 40),
        None,
        {},
        ([[5, 9], [20, 33]], [[0, -3], [99, -1]], [[-99, 4], [1, 4]], [[7, -2], [3, 40]], [[29, 0], [-1, 1]]),
    ),
    "begin": ("STRIDED_SLICE", (30, 40), None, {"EndMask": 3}, ([[5, 9], [0, 0]], [[0, -1], [0, 0]])),
    "end": ("STRIDED_SLICE", (30, 40), None, {"BeginMask": 3}, ([[0, 0], [5, 9]], [[0, 0], [0, -1]])),
    "broadcast": ("BROADCAST_TO", (1, 5), None, {}, ([2, 3, 5], [1, 1, 5], [0, 2, 5], [150, 2, 5])),
}


def _model(case: _Case, example: Array, *, is_computed: bool) -> bytes:
    """Returns a model of an operator whose lengths are fed, or the sum of two inputs."""
    operator, shape, constant, values, _ = case
    file = TfliteModel()
    graph = file.subgraph()
    inputs = [graph.tensor(example.shape, "INT32", name="lengths")]
    lengths = inputs[0]
    if is_computed:
        inputs.append(graph.tensor((), "INT32", name="more"))
        lengths = graph.tensor(example.shape, "INT32", name="all")
        graph.operator("ADD", tuple(inputs), (lengths,), "AddOptions")
    data = []
    if shape is not None:
        inputs.append(graph.tensor(shape, name="given"))
        # Computed data are on the compiled side of a model in parts.
        data = [graph.tensor(shape, name="data")]
        graph.operator("ABS", (inputs[-1],), tuple(data))
    results = _results(graph, operator, example)
    if operator.endswith("SLICE"):
        parts = [graph.tensor(example.shape[1:], "INT32", name=f"part {n}") for n in range(2)]
        graph.operator("UNPACK", (lengths,), tuple(parts), "UnpackOptions", Num=2)
        constant = np.array([1, 1]) if operator == "STRIDED_SLICE" else None
        data += parts
    constants = [] if constant is None else [graph.tensor(constant.shape, "INT32", name="c", data=constant)]
    operands = {
        "FILL": (lengths, *data),
        "UNSORTED_SEGMENT_SUM": (*data, *constants, lengths),
        "ONE_HOT": (
            *constants,
            lengths,
            *(graph.tensor((), data=np.float32(n), name=f"{n}") for n in (1, 0)),
        ),
        "SLICE": tuple(data),
        "STRIDED_SLICE": (*data, *constants),
    }.get(operator, (*data, lengths))
    graph.operator(operator, operands, tuple(results), f"{_OPTIONS[operator]}Options", **values)
    outputs = _results(graph, operator, example)
    for result, output in zip(results, outputs, strict=True):
        graph.operator("NEG", (result,), (output,))
    graph.inputs, graph.outputs = tuple(inputs), tuple(outputs)
    return file.build()


_OPTIONS = {
    "SLICE": "Slice",
    "STRIDED_SLICE": "StridedSlice",
    "PAD": "Pad",
    "MIRROR_PAD": "MirrorPad",
    "TOPK_V2": "TopKV2",
    "ONE_HOT": "OneHot",
    "UNSORTED_SEGMENT_SUM": "UnsortedSegmentSum",
    "TILE": "Tile",
    "FILL": "Fill",
    "BROADCAST_TO": "BroadcastTo",
}


def _results(graph: TfliteGraph, operator: str, example: Array) -> list[int]:
    """Adds the results of an operator, whose lengths are not known."""
    rank = 3 if example.shape == (3,) else 2
    kinds = ("FLOAT32", "INT32") if operator == "TOPK_V2" else ("FLOAT32",)
    return [graph.tensor((1,) * rank, kind, name="r", shape_signature=(-1,) * rank) for kind in kinds]


def compilations(path: Path) -> tuple[nd.Compilation, nd.Compilation]:
    """Returns a model compiled for the CPU device, optimised, and for the references."""
    model = nd.load_tflite(path)
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_startup(nd.Startup.OPTIMIZED)
    return builder.finish(), nd.CompilationBuilder(model, [ReferenceDevice()]).finish()


@sweep("name", list(_CASES))
@sweep("is_computed", [False, True])
def test_code_is_right_for_all_lengths(
    name: str,
    *,
    is_computed: bool,
    tmp_path: Path,
    compiles_here: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Shape rules and kernels made numbers of such lengths, after which all ran on references."""
    case = _CASES[name]
    sets = [np.array(each, np.int32) for each in case[-1]]
    path = tmp_path / f"{name}{is_computed}.tflite"
    path.write_bytes(_model(case, sets[0], is_computed=is_computed))
    rng = np.random.default_rng(1)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        compiled, reference = compilations(path)
        for lengths in sets:
            given = [lengths, np.int32(0)] if is_computed else [lengths]
            if case[1] is not None:
                given.append(rng.standard_normal(case[1]).astype(np.float32))
            for found, wanted in zip(compiled.run(*given), reference.run(*given), strict=True):
                np.testing.assert_array_equal(found, wanted, str(lengths))
    assert "on references" not in caplog.text


_SIZES = ((5, 7), (1, 1), (16, 27), (8, 9), (3, 40), (100, 2))


@sweep("operator", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@sweep("kind", ["FLOAT32", "INT8"], full=["UINT8", "INT16"])
@sweep("channels", [3], full=[16])
@sweep("flags", [(False, False), (True, False), (False, True)])
@sweep("has_open_images", [False, True])
def test_images_are_resized_to_any_size(
    operator: str,
    kind: str,
    channels: int,
    flags: tuple[bool, bool],
    *,
    has_open_images: bool,
    tmp_path: Path,
    compiles_here: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Coordinates were constants, so that all sizes but one ran on references."""
    file = TfliteModel()
    graph = file.subgraph()
    quantization: dict[str, Any] = {} if kind == "FLOAT32" else {"scale": 0.5, "zero_point": 0}
    signature = (1, -1, -1, channels)
    image = graph.tensor(
        (1, 8, 9, channels),
        kind,
        name="image",
        shape_signature=signature if has_open_images else None,
        **quantization,
    )
    size = graph.tensor((2,), "INT32", name="size")
    result = graph.tensor((1, 1, 1, channels), kind, name="r", shape_signature=signature, **quantization)
    name = "ResizeBilinear" if operator == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    align_corners, half_pixel_centers = flags
    graph.operator(
        operator,
        (image, size),
        (result,),
        f"{name}Options",
        AlignCorners=align_corners,
        HalfPixelCenters=half_pixel_centers,
    )
    graph.inputs, graph.outputs = (image, size), (result,)
    path = tmp_path / f"{operator}{kind}{channels}{flags}{has_open_images}.tflite"
    path.write_bytes(file.build())
    rng = np.random.default_rng(1)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        compiled, reference = compilations(path)
        for number, each in enumerate(_SIZES):
            shape = (1, 8 + 3 * number, 9 + number, channels) if has_open_images else (1, 8, 9, channels)
            values = rng.uniform(-100, 100, shape) + (100 if kind == "UINT8" else 0)
            given = [values.astype(kind.lower()), np.array(each, np.int32)]
            ((found,), (wanted,)) = compiled.run(*given), reference.run(*given)
            if kind == "FLOAT32":
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3, err_msg=str(each))
            else:
                np.testing.assert_array_equal(found, wanted, str(each))
    assert "on references" not in caplog.text
    assert "only valid" not in caplog.text


@sweep("name", ["element", "range", "reshape"])
def test_numbers_that_one_input_has(
    name: str, tmp_path: Path, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """They are parts of the arguments of operators: `x[n]`, `range(n)`, and a shape of n and -1."""
    file = TfliteModel()
    graph = file.subgraph()
    number, data = graph.tensor((), "INT32", name="n"), graph.tensor((30, 8), name="data")

    def integers(*values: int) -> int:
        return graph.tensor((len(values),), "INT32", name="c", data=np.array(values))

    def packed(first: int, second: int) -> int:
        both = graph.tensor((2,), "INT32", name="both")
        one = graph.tensor((), "INT32", name="c", data=np.array(second))
        graph.operator("PACK", (first, one), (both,), "PackOptions", ValuesCount=2)
        return both

    if name == "element":
        result, after = graph.tensor((8,), name="r"), graph.tensor((), "INT32", name="after")
        one = graph.tensor((), "INT32", name="one", data=np.array(1))
        graph.operator("ADD", (number, one), (after,), "AddOptions")
        operands = data, packed(number, 0), packed(after, 0), integers(1, 1)
        masks: dict[str, Any] = {"BeginMask": 2, "EndMask": 2, "ShrinkAxisMask": 1}
        graph.operator("STRIDED_SLICE", operands, (result,), "StridedSliceOptions", **masks)
    elif name == "range":
        result = graph.tensor((1,), "INT32", name="r", shape_signature=(-1,))
        first, step = (graph.tensor((), "INT32", name="c", data=np.array(n)) for n in (0, 1))
        graph.operator("RANGE", (first, number, step), (result,), "RangeOptions")
    else:
        result = graph.tensor((1, 1), name="r", shape_signature=(-1, -1))
        graph.operator("RESHAPE", (data, packed(number, -1)), (result,), "ReshapeOptions")
    graph.inputs, graph.outputs = (number, data), (result,)
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(file.build())
    values = np.random.default_rng(1).standard_normal((30, 8)).astype(np.float32)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        compiled, reference = compilations(path)
        for each in (5, 1, 24, 0)[: 3 if name == "reshape" else 4]:
            given = np.int32(each), values
            np.testing.assert_array_equal(compiled.run(*given)[0], reference.run(*given)[0], str(each))
    assert "on references" not in caplog.text


def _reshaping(rank: int, *, is_open: bool, declared: Sequence[int] | None = None) -> nd.Model:
    """Returns a model that doubles its input, reshapes it to another input, and negates it."""
    file = TfliteModel()
    graph = file.subgraph()
    given = graph.tensor((4, 3, 5), shape_signature=(-1, -1, -1) if is_open else None)
    shape = graph.tensor((rank,), "INT32")
    doubled = graph.tensor((4, 3, 5), shape_signature=(-1, -1, -1) if is_open else None)
    signature = (-1,) * rank if declared is None else tuple(declared)
    results = [graph.tensor((1,) * rank, shape_signature=signature, name=f"r{n}") for n in range(2)]
    graph.operator("ADD", (given, given), (doubled,), "AddOptions")
    graph.operator("RESHAPE", (doubled, shape), (results[0],), "ReshapeOptions")
    graph.operator("NEG", (results[0],), (results[1],))
    graph.inputs, graph.outputs = (given, shape), (results[1],)
    return nd.load_tflite(file.build())


@pytest.mark.parametrize("is_open", [False, True], ids=["specified", "open"])
@pytest.mark.parametrize(
    ("declared", "shapes"),
    [
        (None, [(12, 5), (-1, 5), (5, -1), (1, -1), (60, 1), (2, 30)]),
        ((-1, 5), [(-1, 5), (12, 5)]),
        (None, [(-1,), (60,)]),
        (None, [(2, -1, 3, 1), (1, 1, 1, 60), (-1, 2, 2, 3)]),
    ],
)
def test_shapes_that_are_inputs(
    declared: Sequence[int] | None,
    shapes: Sequence[tuple[int, ...]],
    *,
    is_open: bool,
    compiles_here: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A length of -1 was refused, and shapes were compiled for each size of open inputs."""
    model = _reshaping(len(shapes[0]), is_open=is_open, declared=declared)
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_startup(nd.Startup.OPTIMIZED)
    caplog.clear()
    with caplog.at_level(logging.INFO, "neurald"):
        compiled = builder.finish()
        for factor in (1, 2, 3) if is_open else (1,):
            given = np.arange(60 * factor, dtype=np.float32).reshape(4, 3 * factor, 5)
            for shape in shapes:
                # Some shapes are only valid for one size.
                if -1 in shape or factor == 1:
                    (found,) = compiled.run(given, np.array(shape, np.int32))
                    np.testing.assert_array_equal(found, -2 * given.reshape(shape))
    assert "on references" not in caplog.text
    assert "not compiled for open dimensions" not in caplog.text
    assert len([each for each in caplog.messages if "operations " in each]) <= 2


@pytest.mark.parametrize("is_open", [False, True], ids=["specified", "open"])
def test_shapes_of_other_sizes_are_refused(*, is_open: bool) -> None:
    compiled = nd.CompilationBuilder(_reshaping(2, is_open=is_open), [CpuDevice()]).finish()
    given = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
    for shape in ((-1, -1), (7, -1), (0, -1), (-2, -30), (11, 5), (-1, 61)):
        with pytest.raises(nd.OpFailed):
            compiled.run(given, np.array(shape, np.int32))
        (found,) = compiled.run(given, np.array((6, -1), np.int32))
        np.testing.assert_array_equal(found, -2 * given.reshape(6, 10))


def test_strides_that_are_inputs() -> None:
    """A length that is divided by them was that for strides of 2, also if they are 1."""
    file = TfliteModel()
    graph = file.subgraph()
    source, strides = graph.tensor((7,)), graph.tensor((1,), "INT32")
    limits = [graph.tensor((1,), "INT32", data=np.array([each])) for each in (5, 7)]
    result = graph.tensor((1,), shape_signature=(-1,))
    graph.operator("STRIDED_SLICE", (source, *limits, strides), (result,), "StridedSliceOptions")
    graph.inputs, graph.outputs = (source, strides), (result,)
    compiled = nd.CompilationBuilder(nd.load_tflite(file.build()), [CpuDevice()]).finish()
    given = np.arange(7, dtype=np.float32)
    for stride in (1, 2, 3, 1):
        (found,) = compiled.run(given, np.array([stride], np.int32))
        np.testing.assert_array_equal(found, given[5:7:stride])
