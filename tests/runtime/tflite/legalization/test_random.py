from pathlib import Path

import pytest
from support.models.whole_model import run_references
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, numbers, random, shaped

from neurald.runtime.tflite import load_tflite


@pytest.mark.parametrize("code", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_random_numbers_are_drawn_anew_with_each_execution(load: Load, code: str) -> None:
    shape = fixed([2, 3], "INT32")
    model = load(code, (shape,), shaped(1, 1), "RandomOptions", Seed=(1 << 40) + 5, Seed2=7)
    assert numbers(model, start=1) == [[5, 7]]
    (result,) = run_references(model)
    assert result.shape == (2, 3)
    model = load(
        "MULTINOMIAL", (shaped(2, 3), fixed(4, "INT32")), shaped(1, 1, type_="INT64"), "RandomOptions", Seed=5
    )
    (result,) = run_references(model, random(2, 3))
    assert result.shape == (2, 4)


def test_random_bits(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = (graph.tensor((2,), "UINT64"),)
    graph.outputs = graph.tensor((2,), "UINT64"), graph.tensor((3, 5), "UINT32")
    graph.operator(
        "STABLEHLO_RNG_BIT_GENERATOR",
        graph.inputs,
        graph.outputs,
        "StablehloRngBitGeneratorOptions",
        Algorithm=2,
    )
    model = load_tflite(file.write(tmp_path / "bits.tflite"))
    following, bits = run_references(model, [5, 7])
    assert following.tolist() == [5, 15]
    assert bits.shape == (3, 5)
