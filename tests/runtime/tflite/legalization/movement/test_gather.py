import numpy as np
import pytest
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, shaped
from support.tflite.results import run_operator

from neurald.hal.errors import BadData
from neurald.runtime.tflite.file.schema import INT2, UINT4


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(1, "SPARSE"), (2, "DENSE")])
def test_lsh_projection(load: Load, kind: int, name: str, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    functions = rng.random((3, 4)).astype(np.float32)
    rows = rng.integers(-9, 9, (5, 2)).astype(np.int32)
    weights = rng.random(5).astype(np.float32)
    given = [fixed(functions.tolist(), "FLOAT32"), shaped(5, 2, type_="INT32")]
    given += [fixed(weights.tolist(), "FLOAT32")] if weighted else []
    output = shaped(12 if name == "DENSE" else 3, type_="INT32")
    (result,) = run_references(load("LSH_PROJECTION", given, output, "LSHProjectionOptions", Type=kind), rows)
    (dense,) = run_references(
        load("LSH_PROJECTION", given, shaped(12, type_="INT32"), "LSHProjectionOptions", Type=2), rows
    )
    signatures = dense.reshape(3, 4) @ [8, 4, 2, 1] + np.arange(3) * 16
    assert result.tolist() == (dense if name == "DENSE" else signatures).tolist()
    assert set(dense.tolist()) <= {0, 1}


def test_an_unknown_projection_is_refused(load: Load) -> None:
    given = [fixed([[1.0]], "FLOAT32"), shaped(5, 2, type_="INT32")]
    with pytest.raises(BadData, match="projection type 0"):
        load("LSH_PROJECTION", given, shaped(1, type_="INT32"), "LSHProjectionOptions", Type=0)


@pytest.mark.parametrize(
    ("kind", "quantized", "expected"),
    [
        ("INT4", [0x18, 0xF7, 0x0A], [[-8, 1, 7], [-1, -6, 0]]),
        (UINT4, [0x18, 0xF7, 0x0A], [[8, 1, 7], [15, 10, 0]]),
        (INT2, [0b11100100, 0b1001], [[0, 1, -2], [-1, 1, -2]]),
    ],
)
def test_narrow_types_are_moved(
    load: Load, kind: str | int, quantized: list[int], expected: list[list[int]]
) -> None:
    table = {"shape": (2, 3), "data": bytes(quantized), "type_": kind, "scale": 0.5}
    rows = np.array([1, 0], np.int32)
    gathered = run_operator(
        load,
        rows,
        code="GATHER",
        inputs=[table, shaped(2, type_="INT32")],
        output=shaped(2, 3, type_=kind, scale=0.5),
        options="GatherOptions",
    )
    assert gathered == expected[::-1]
