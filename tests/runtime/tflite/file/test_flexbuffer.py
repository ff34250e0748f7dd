import random

import pytest
from flatbuffers import flexbuffers
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.flexbuffer import FlexMap

VALUES = {"a": 3, "long name of a key": -70000, "b": 2.5, "c": True, "d": 1 << 40, "e": 200, "f": 1e-300}


def test_numbers_of_all_kinds_and_widths() -> None:
    options = FlexMap(bytes(flexbuffers.Dumps(VALUES)))
    for name, value in VALUES.items():
        assert options.real(name) == value
    assert options.integer("long name of a key") == -70000
    assert options.integer("d") == 1 << 40
    assert options.boolean("c", default=False)
    assert options.boolean("x", default=True)
    assert options.integer("x", 7) == 7


def test_small_maps() -> None:
    for values in ({}, {"a": 1}, {"a": 1.5, "b": False}):
        options = FlexMap(bytes(flexbuffers.Dumps(values)))
        for name, value in values.items():
            assert options.real(name) == value


def test_indirect_numbers() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("i")
        builder.IndirectInt(-5)
        builder.Key("f")
        builder.IndirectFloat(0.25)
    options = FlexMap(bytes(builder.Finish()))
    assert options.integer("i") == -5
    assert options.real("f") == 0.25


def test_vectors() -> None:
    """Vectors have typed or untyped elements; those of up to four may have no length."""
    builder = flexbuffers.Builder()
    vectors = {"long": [5, -70000, 3, 1, 2], "one": [7], "two": [1, 300], "three": [1, 2, -3], "none": []}
    with builder.Map():
        for name, values in vectors.items():
            builder.Key(f"{name} plain")
            builder.VectorFromElements(values)
            if values:
                builder.Key(f"{name} typed")
                builder.TypedVectorFromElements(values)
            if 2 <= len(values) <= 4:
                builder.Key(f"{name} fixed")
                builder.FixedTypedVectorFromElements(values)
        builder.Key("reals")
        builder.TypedVectorFromElements([0.5, 1.5])
        builder.Key("number")
        builder.Int(3)
    options = FlexMap(bytes(builder.Finish()))
    for name, values in vectors.items():
        for kind in ("plain", "typed", "fixed"):
            if f"{name} {kind}" in options:
                assert list(options.integers(f"{name} {kind}")) == values
    assert options.integer("number") == 3
    for name in ("reals", "number", "other"):
        with pytest.raises(BadData, match=f"no integers '{name}'"):
            options.integers(name)


def test_missing_keys_and_other_types() -> None:
    options = FlexMap(
        bytes(flexbuffers.Dumps({"text": "x", "big": (1 << 63) - 1, "nan": float("nan"), "list": [1]}))
    )
    for name in ("text", "list", "other"):
        with pytest.raises(BadData, match=f"no number '{name}'"):
            options.real(name)
    for name in ("big", "nan"):
        with pytest.raises(BadData, match="a whole number is expected"):
            options.integer(name)


@sweep("data", [b"", b"ab", flexbuffers.Dumps([1, 2]), flexbuffers.Dumps(5), b"\0\0\0\x24\x03"])
def test_data_that_is_not_a_map(data: bytes) -> None:
    with pytest.raises(BadData):
        FlexMap(bytes(data))


def test_damaged_maps() -> None:
    sound, rng = bytes(flexbuffers.Dumps(VALUES)), random.Random(0)
    for _ in range(3000):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randint(0, len(data))] if rng.random() < 0.2 else data
        try:
            options = FlexMap(bytes(data))
            for name in VALUES:
                options.integer(name)
                options.boolean(name, default=False)
        except BadData:
            continue
