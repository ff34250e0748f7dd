from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.operator import Load, fixed, load_operator, shaped
from support.tflite.results import DTYPES, check, counted

from neurald.hal.errors import BadData
from neurald.hal.operations.machinery.call import Array


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("kind", DTYPES)
def test_operators_with_a_list(load: Load, kind: str, *, is_fed: bool) -> None:
    """The list is a constant or an input."""
    x = counted(kind, 2, 3, 2)
    cases: list[tuple[str, Any, str, Array]] = [
        ("EXPAND_DIMS", [1], "INT64", x[:, np.newaxis]),
        ("TRANSPOSE", [2, 0, 1], "INT32", x.transpose(2, 0, 1)),
        ("TILE", [1, 2, 3], "INT64", np.tile(x, (1, 2, 3))),
        ("BROADCAST_TO", [2, 2, 3, 2], "INT64", np.broadcast_to(x, (2, 2, 3, 2))),
        ("PAD", [[0, 1], [1, 0], [0, 0]], "INT64", np.pad(x, ((0, 1), (1, 0), (0, 0)))),
        ("REVERSE_V2", [-2], "INT32", x[:, ::-1]),
        ("REVERSE_V2", [1], "INT32", x[:, ::-1]),
        ("GATHER_ND", [[1, 2], [0, 0]], "INT64", x[[1, 0], [2, 0]]),
        ("ARG_MAX", 1, "INT32", x.argmax(1).astype(np.int64)),
    ]
    for code, value, index, expected in cases:
        result = "INT64" if code == "ARG_MAX" else kind
        given = shaped(*np.shape(value), type_=index) if is_fed else fixed(value, index)
        model = load(code, (shaped(2, 3, 2, type_=kind), given), shaped(*(1,) * expected.ndim, type_=result))
        check(model, expected, x, *((value,) if is_fed else ()))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_operators_with_an_axis(load: Load, kind: str, axis: int) -> None:
    x, source = counted(kind, 2, 3, 2), shaped(2, 3, 2, type_=kind)
    model = load(
        "PACK", (source, source), shaped(1, 1, 1, 1, type_=kind), "PackOptions", ValuesCount=2, Axis=axis
    )
    check(model, np.stack((x, x), axis), x, x)
    model = load(
        "CONCATENATION", (source, source), shaped(1, 1, 1, type_=kind), "ConcatenationOptions", Axis=axis
    )
    check(model, np.concatenate((x, x), axis), x, x)
    model = load(
        "GATHER", (source, shaped(2, type_="INT16")), shaped(1, 1, 1, type_=kind), "GatherOptions", Axis=axis
    )
    check(model, np.take(x, [1, 0], axis), x, [1, 0])
    one_hot = fixed(3, "INT32"), fixed(1, kind), fixed(0, kind)
    positions = np.array([[0, 2], [5, 1]])
    model = load(
        "ONE_HOT",
        (shaped(2, 2, type_="INT64"), *one_hot),
        shaped(1, 1, 1, type_=kind),
        "OneHotOptions",
        Axis=axis,
    )
    expected = np.moveaxis(positions[..., None] == np.arange(3), -1, axis).astype(DTYPES[kind])
    check(model, expected, positions)


@sweep("code", ["SLICE", "GATHER_ND", "TILE"])
def test_refuses_axes(tmp_path: Path, code: str) -> None:
    lists = {"SLICE": ([3, 0], [1, 1]), "GATHER_ND": ([[0, 0, 0]],), "TILE": ([1, -1],)}[code]
    with pytest.raises(BadData, match=code):
        load_operator(tmp_path, code, (shaped(2, 3), *(fixed(x, "INT32") for x in lists)), shaped(1, 1))
