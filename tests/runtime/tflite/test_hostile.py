"""Files that are damaged, by hand and at random, must give BadData, and quickly."""

import contextlib
import copy
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

from neurald.hal.errors import BadData
from neurald.runtime.tflite import load_tflite

NUMPY_TYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}
INTEGERS = (0, 1, -1, 2, 127, -128, 255, 2**15, 2**31 - 1, -(2**31))


def images(type_: str, **scale: Any) -> TfliteModel:
    """Builds a classifier with convolutions, pools and resizing."""
    file = TfliteModel()
    graph = file.subgraph()

    def result(*shape: int) -> int:
        return graph.tensor(shape, type_, shape_signature=(-1, *shape[1:]), **scale)

    is_float = type_ == "FLOAT32"
    channels: dict[str, Any] = {} if is_float else {"scale": (0.5, 0.25)}
    bias = "FLOAT32" if is_float else "INT32"
    x = result(1, 4, 4, 2)
    window: dict[str, Any] = {"StrideW": 1, "StrideH": 1}
    weights = graph.tensor((2, 1, 1, 2), type_, data=np.ones(4), **channels)
    offsets = graph.tensor((2,), bias, data=[1, 2])
    convolved, pooled, resized, joined, mean, flat, dense, scores = (
        result(1, 4, 4, 2),
        result(1, 2, 2, 2),
        result(1, 4, 4, 2),
        result(1, 4, 4, 4),
        result(1, 4),
        result(1, 1, 4),
        result(1, 3),
        graph.tensor((1, 3), type_)
        if is_float
        else graph.tensor((1, 3), type_, scale=1 / 256, zero_point=-128),
    )
    graph.operator("CONV_2D", (x, weights, offsets), (convolved,), "Conv2DOptions", **window)
    graph.operator(
        "MAX_POOL_2D",
        (convolved,),
        (pooled,),
        "Pool2DOptions",
        StrideW=2,
        StrideH=2,
        FilterWidth=2,
        FilterHeight=2,
    )
    size = graph.tensor((2,), "INT32", data=[4, 4])
    graph.operator("RESIZE_BILINEAR", (pooled, size), (resized,), "ResizeBilinearOptions")
    graph.operator("CONCATENATION", (resized, convolved), (joined,), "ConcatenationOptions", Axis=-1)
    axes = graph.tensor((2,), "INT32", data=[1, 2])
    graph.operator("MEAN", (joined, axes), (mean,), "ReducerOptions")
    graph.operator("RESHAPE", (mean,), (flat,), "ReshapeOptions", NewShape=[-1, 1, 4])
    matrix = graph.tensor((3, 4), type_, data=np.ones(12), **scale)
    graph.operator("FULLY_CONNECTED", (flat, matrix, -1), (dense,), "FullyConnectedOptions")
    graph.operator("SOFTMAX", (dense,), (scores,), "SoftmaxOptions", Beta=1.0)
    graph.inputs, graph.outputs = (x,), (scores,)
    return file


def others() -> TfliteModel:
    """Builds files with scalars, signatures, custom operators and data after the flatbuffer."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z, u, v = (graph.tensor((2, 1), name=name) for name in "xyzuv")
    outside = graph.tensor((2, 1), data=[1, 2], is_external=True)
    graph.operator("MUL", (x, outside), (y,), "MulOptions", FusedActivationFunction=4)
    graph.operator("SQUEEZE", (y,), (z,), "SqueezeOptions", SqueezeDims=[1])
    graph.operator("LOGISTIC", (z,), (u,))
    graph.operator("RELU6", (u,), (v,))
    graph.inputs, graph.outputs = (x,), (v, v, x)
    second = file.subgraph()
    second.inputs = (second.tensor((1,), is_variable=True, is_sparse=True),)
    second.outputs = (second.tensor((), has_rank=True),)
    second.operator("CUSTOM", second.inputs, second.outputs, custom_code="Own")
    file.signature("main", {"in": x}, {"out": v, "same": x})
    file.signature("other", {"in": 0}, {"out": 1}, 1)
    return file


SEEDS = (images("FLOAT32"), images("INT8", scale=0.5, zero_point=3), others())


def flip_bit(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def set_byte(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] = chance.choice((0, 1, 4, 127, 128, 255))


def set_word(content: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(0, len(content) - 4)
    number = chance.choice((*INTEGERS, len(content), -len(content), chance.getrandbits(31)))
    content[offset : offset + 4] = struct.pack("<i", number)


def add_to_word(content: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(0, len(content) // 4 - 1) * 4
    (word,) = struct.unpack_from("<I", content, offset)
    content[offset : offset + 4] = struct.pack("<I", (word + chance.choice((-4, -1, 1, 4, 8))) % 2**32)


def cut_off(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def cut_out(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(content))
    del content[start : start + chance.choice((1, 2, 4, 16))]


def copy_within(content: bytearray, chance: random.Random) -> None:
    source, target, length = (chance.randrange(len(content)) for _ in range(3))
    length = min(length % 32, len(content) - max(source, target))
    content[target : target + length] = content[source : source + length]


MUTATIONS = (flip_bit, set_byte, set_word, add_to_word, cut_off, cut_out, copy_within)


@sweep("seed", range(len(SEEDS)))
@sweep("mutate", MUTATIONS)
def test_random_damage(tmp_path: Path, seed: int, mutate: Callable[[bytearray, random.Random], None]) -> None:
    original = SEEDS[seed].build()
    path = tmp_path / "model.tflite"
    chance = random.Random(f"{seed} {mutate.__name__}")
    for _ in range(150):
        content = bytearray(original)
        for _ in range(chance.choice((1, 1, 2, 4))):
            if len(content) > 8:
                mutate(content, chance)
        path.write_bytes(content)
        with contextlib.suppress(BadData):
            load_tflite(path, chance.choice((None, "main", "other")) if seed == 2 else None)


REALS = (0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, float("inf"), float("nan"), 1 / 256, 1 / 128)


def number(chance: random.Random) -> int:
    return chance.choice((chance.randrange(6), chance.choice(INTEGERS)))


def distort_tensor(graph: TfliteGraph, chance: random.Random) -> None:
    """Changes shape, type or quantisation; small constants get the number of bytes they need."""
    tensor = chance.choice(graph.tensors)
    shape = list(tensor.shape)
    what = chance.randrange(5)
    if what == 0 and shape:
        shape[chance.randrange(len(shape))] = number(chance)
        tensor.shape = shape
    elif what == 1:
        tensor.shape = shape[1:] if chance.random() < 0.5 else [1, *shape]
        tensor.shape_signature = None
    elif what == 2:
        tensor.type = chance.choice(sorted(NUMPY_TYPES))
    elif what == 3:
        tensor.scale, tensor.zero_point = (chance.choice(REALS),), (number(chance),)
    else:
        tensor.data = None if tensor.data is not None else [number(chance)]
    size = int(np.prod(np.array(tensor.shape, object)))
    if tensor.data is not None and 0 <= size < 1000 and tensor.type in NUMPY_TYPES:
        values = [chance.choice((number(chance) % 60000, chance.randrange(4))) for _ in range(size)]
        tensor.data = np.array(values).astype(NUMPY_TYPES[str(tensor.type)]).tobytes()


def distort_operator(graph: TfliteGraph, chance: random.Random) -> None:
    """Changes an option or the operands."""
    operator = chance.choice(graph.operators)
    if operator.values and chance.random() < 0.7:
        name, value = chance.choice(sorted(operator.values.items()))
        changed: Any = number(chance)
        if isinstance(value, list):
            changed = [number(chance) for _ in range(chance.randrange(10))]
        elif isinstance(value, float):
            changed = chance.choice(REALS)
        elif name in ("Padding", "FusedActivationFunction"):
            changed = chance.randrange(-1, 7)
        operator.values = {**operator.values, name: changed}
    else:
        inputs = list(operator.inputs)
        inputs[chance.randrange(len(inputs))] = chance.randrange(-1, len(graph.tensors))
        operator.inputs = inputs


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_valid_files_with_unusual_values(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "model.tflite"
    chance = random.Random(seed)
    for _ in range(100):
        file = copy.deepcopy(SEEDS[seed])
        for _ in range(chance.randrange(1, 4)):
            chance.choice((distort_tensor, distort_operator))(file.graphs[0], chance)
        with contextlib.suppress(BadData):
            load_tflite(file.write(path))


def test_the_original_files_are_valid(tmp_path: Path) -> None:
    for seed in SEEDS:
        load_tflite(seed.write(tmp_path / "model.tflite"))


def test_every_length(tmp_path: Path) -> None:
    content = SEEDS[2].build()
    path = tmp_path / "model.tflite"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(BadData):
            load_tflite(path)


Spoil = Callable[[TfliteModel, TfliteGraph], Any]


def spoiled(spoil: Spoil) -> TfliteModel:
    """Builds `y = x + c; z = tanh(y)`, and spoils it."""
    file = TfliteModel()
    graph = file.subgraph()
    x, y, z = (graph.tensor((2,), name=name) for name in "xyz")
    constant = graph.tensor((2,), name="c", data=[1, 2])
    graph.operator("ADD", (x, constant), (y,), "AddOptions")
    graph.operator("TANH", (y,), (z,))
    graph.inputs, graph.outputs = (x,), (z,)
    file.signature("s", {"x": x}, {"z": z})
    spoil(file, graph)
    return file


def setting(position: int, **fields: Any) -> Spoil:
    """Changes a tensor."""

    def spoil(_: TfliteModel, graph: TfliteGraph) -> None:
        for name, value in fields.items():
            setattr(graph.tensors[position], name, value)

    return spoil


def wiring(position: int, **fields: Any) -> Spoil:
    """Changes an operator."""

    def spoil(_: TfliteModel, graph: TfliteGraph) -> None:
        for name, value in fields.items():
            setattr(graph.operators[position], name, value)

    return spoil


def whole(**fields: Any) -> Spoil:
    """Changes the model."""

    def spoil(file: TfliteModel, _: TfliteGraph) -> None:
        for name, value in fields.items():
            setattr(file, name, value)

    return spoil


def ends(**fields: Any) -> Spoil:
    """Changes the subgraph."""

    def spoil(_: TfliteModel, graph: TfliteGraph) -> None:
        for name, value in fields.items():
            setattr(graph, name, value)

    return spoil


@sweep(
    ("spoil", "message"),
    [
        (whole(identifier=b"TFL2"), "its identifier is b'TFL2'; b'TFL3' is expected"),
        (whole(version=2), "schema version 2; 3 is expected"),
        (whole(version=2**32 - 1), "schema version 4294967295"),
        (whole(graphs=[], signatures=[]), "no subgraph"),
        (whole(signatures=[(None, 0, {}, {})]), "signature has no name"),
        (whole(signatures=[("s", 0, {}, {})] * 2), "two signatures are named 's'"),
        (whole(signatures=[("s", 1, {}, {})]), "signature 's' refers to subgraph 1; there are 1"),
        (setting(0, name=b"\xff\xfe"), "not UTF-8"),
        (setting(0, shape=(-1,)), r"shape \[-1\]; no length may be negative"),
        (setting(0, shape=(2**31 - 1,) * 4), "bytes"),
        (setting(0, shape_signature=(-2,)), "shape signature"),
        (setting(0, shape_signature=(-1, -1)), "shape signature"),
        (setting(0, shape=(1,) * 5000), "rank 5000"),
        (setting(0, type=-1), "type -1"),
        (setting(0, type=120), "type 120"),
        (setting(0, buffer=2**32 - 1), "refers to buffer 4294967295"),
        (setting(3, buffer=9), "refers to buffer 9; there are 1"),
        (setting(3, data=b"1234"), "4 bytes of data"),
        (setting(3, shape=(3,)), r"8 bytes of data; FLOAT32\[3\] has 12"),
        (setting(3, data=None), "reads tensor 3 'c', which nothing before it writes"),
        (setting(2, buffer=1), "operator 1 TANH writes tensor 2 'z', which already has a value"),
        (wiring(0, inputs=(0, 4)), "operator 0 .* refers to tensor 4; there are 4"),
        (wiring(0, inputs=(0, -2)), "refers to tensor -2"),
        (wiring(0, inputs=(0, 2**31 - 1)), "refers to tensor 2147483647"),
        (wiring(0, inputs=(0, -(2**31))), "refers to tensor -2147483648"),
        (wiring(0, inputs=(-1, 3)), "input 0 is omitted"),
        (wiring(0, outputs=(-1,)), "refers to tensor -1"),
        (wiring(0, outputs=(4,)), "refers to tensor 4"),
        (
            wiring(1, outputs=()),
            "operator 1 TANH: it has 1 input and 0 outputs; 1 input and 1 output are expected",
        ),
        (wiring(0, outputs=(1, 1)), "which already has a value"),
        (wiring(1, outputs=(1,)), "operator 1 TANH writes tensor 1 'y', which already has a value"),
        (wiring(0, outputs=(0,)), "operator 0 ADD writes tensor 0 'x', which already has a value"),
        (wiring(0, inputs=(0, 1)), "operator 0 ADD reads tensor 1 'y', which nothing before it writes"),
        (wiring(0, inputs=(0, 2)), "operator 0 ADD reads tensor 2 'z', which nothing before it writes"),
        (wiring(0, code=-1), "builtin code -1"),
        (wiring(0, code=2**31 - 1), "builtin code 2147483647"),
        (wiring(0, code=32, custom_code=None), "CUSTOM ''"),
        (wiring(0, code=32, custom_code="\x1b[2J" + "o" * 500), r"CUSTOM '\\x1b\[2Jo{69,}\.\.\.'"),
        (wiring(0, options="Pool2DOptions"), "its options are Pool2DOptions"),
        (ends(inputs=(4,)), "input 0 refers to tensor 4"),
        (ends(inputs=(-1,)), "input 0 refers to tensor -1"),
        (ends(inputs=(0, 0)), "listed twice among the inputs"),
        (ends(outputs=(4,)), "output 0 refers to tensor 4"),
        (ends(outputs=(-1,)), "output 0 refers to tensor -1"),
        (ends(outputs=()), "no output; at least one"),
        (ends(operators=[]), "output 0, tensor 2 'z', is never written"),
        (ends(inputs=(3,)), "operator 0 ADD reads tensor 0 'x', which nothing before it writes"),
    ],
)
def test_error_messages(tmp_path: Path, spoil: Spoil, message: str) -> None:
    with pytest.raises(BadData, match=message):
        load_tflite(spoiled(spoil).write(tmp_path / "model.tflite"))


@sweep(
    ("inputs", "outputs", "message"),
    [
        ({}, {"z": 2}, "does not name each input"),
        ({"x": 1}, {"z": 2}, "does not name each input"),
        ({"x": 0, "too": 0}, {"z": 2}, "does not name each input"),
        ({"x": 2**32 - 1}, {"z": 2}, "does not name each input"),
        ({"x": 0}, {"z": 4}, "output 'z' is tensor 4; there are 4"),
        ({"x": 0}, {"z": 2**32 - 1}, "output 'z' is tensor 4294967295"),
        ({"x": 0}, {}, "no output; at least one"),
    ],
)
def test_a_signature_must_match_its_subgraph(
    tmp_path: Path, inputs: dict[str, int], outputs: dict[str, int], message: str
) -> None:
    file = spoiled(whole(signatures=[("s", 0, inputs, outputs)]))
    with pytest.raises(BadData, match=message):
        load_tflite(file.write(tmp_path / "model.tflite"), "s")


@sweep(("offset", "length"), [(2**64 - 1, 8), (2, 2**64 - 1), (2**63, 2**63), (10**6, 8)])
def test_data_after_the_flatbuffer_must_be_in_the_file(tmp_path: Path, offset: int, length: int) -> None:
    content = bytearray(spoiled(setting(3, is_external=True)).build())
    # The last 16 bytes are the data and its padding. The buffer's table has its offset and length.
    start = content.index(struct.pack("<QQ", 8, len(content) - 8))
    content[start : start + 16] = struct.pack("<QQ", length, offset)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(BadData, match=f"{length} bytes at offset {offset} do not lie inside"):
        load_tflite(path)


def test_many_unsupported_operators(tmp_path: Path) -> None:
    """Reporting many unsupported operators must be fast."""
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = graph.outputs = (graph.tensor((2,)),)
    for _ in range(2000):
        graph.operator("CUSTOM", graph.inputs, (), custom_code="x" * 50)
    start = time.thread_time()
    with pytest.raises(BadData, match="2000"):
        load_tflite(file.write(tmp_path / "model.tflite"))
    assert time.thread_time() - start < 10
