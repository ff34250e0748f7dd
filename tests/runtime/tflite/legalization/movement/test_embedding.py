import numpy as np
from support.models.whole_model import run_references
from support.tflite.operator import Load, fixed, random, shaped
from support.tflite.results import int8, run_on_cpu, run_operator


def test_an_embedding_of_unsigned_bytes(load: Load) -> None:
    table = fixed([[0, 1], [255, 128]], "UINT8", scale=0.5, zero_point=128)
    result = run_operator(
        load,
        np.array([1, 0], np.int32),
        code="EMBEDDING_LOOKUP",
        inputs=[shaped(2, type_="INT32"), table],
        output=shaped(2, 2),
    )
    assert result == [[-0.5, -64], [0, 0.5]]


def test_rows_are_looked_up_for_any_scales(load: Load) -> None:
    table = fixed(np.arange(6).reshape(2, 3), **int8(1))
    model = load("EMBEDDING_LOOKUP", [shaped(2, type_="INT32"), table], shaped(2, 3, **int8(4, 0.05)))
    assert run_on_cpu(model, np.array([1, 0], np.int32)) == [3, 4, 5, 0, 1, 2]


def test_combined_lookups(load: Load) -> None:
    table = random(3, 2)
    model = load(
        "EMBEDDING_LOOKUP_SPARSE",
        (
            fixed([2, 0], "INT32"),
            fixed([[0, 0], [0, 1]], "INT32"),
            fixed([2, 2], "INT32"),
            shaped(2),
            fixed(table),
        ),
        shaped(0),
        "EmbeddingLookupSparseOptions",
        Combiner=1,
    )
    (result,) = run_references(model, [1.0, 3.0])
    np.testing.assert_allclose(result, [(table[2] + 3 * table[0]) / 4, [0, 0]], rtol=1e-6)
