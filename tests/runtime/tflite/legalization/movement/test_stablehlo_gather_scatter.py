from pathlib import Path

import numpy as np
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.operator import Load, random, shaped
from support.tflite.stablehlo import NUMBER_BODIES, load_with_body, long


def test_stablehlo_gather(load: Load) -> None:
    model = load(
        "STABLEHLO_GATHER",
        (shaped(5, 4), shaped(3, type_="INT64")),
        shaped(1, 1),
        "StablehloGatherOptions",
        OffsetDims=long(1),
        CollapsedSliceDims=long(0),
        StartIndexMap=long(0),
        IndexVectorDim=1,
        SliceSizes=long(1, 4),
    )
    x = random(5, 4)
    np.testing.assert_array_equal(run_references(model, x, [3, 0, 9])[0], x[[3, 0, 4]])


@sweep("body", [[], *([name] for name in NUMBER_BODIES)])
def test_stablehlo_scatter(tmp_path: Path, body: list[str]) -> None:
    model = load_with_body(
        tmp_path,
        "STABLEHLO_SCATTER",
        [(5, 4), (2, 1), (2, 4)],
        ["FLOAT32", "INT32", "FLOAT32"],
        body,
        "StablehloScatterOptions",
        UpdateWindowDims=long(1),
        InsertedWindowDims=long(0),
        ScatterDimsToOperandDims=long(0),
        IndexVectorDim=1,
        UpdateComputationSubgraphIndex=1,
    )
    x, updates = random(5, 4), random(2, 4, seed=1)
    expected = x.copy()
    function = NUMBER_BODIES[body[0]] if body else None
    expected[3] = updates[0] if function is None else function(x[3], updates[0])
    np.testing.assert_array_equal(run_references(model, x, [[3], [7]], updates)[0], expected)
