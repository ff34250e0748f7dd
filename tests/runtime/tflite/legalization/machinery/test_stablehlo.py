from pathlib import Path

import numpy as np
import pytest
from support.models.whole_model import run_references
from support.sweeps import sweep
from support.tflite.operator import random, types
from support.tflite.stablehlo import BOOLEAN_BODIES, NUMBER_BODIES, WINDOW, load_with_body

from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType


@sweep("body", [*NUMBER_BODIES, *BOOLEAN_BODIES])
def test_bodies_of_either_dialect(tmp_path: Path, body: str) -> None:
    """Converters write the body's operator as StableHLO's or TFLite's."""
    kind = "BOOL" if body in BOOLEAN_BODIES else "FLOAT32"
    model = load_with_body(
        tmp_path,
        "STABLEHLO_REDUCE_WINDOW",
        [(3, 2), ()],
        [kind] * 2,
        [body],
        "StablehloReduceWindowOptions",
        output=kind,
        **WINDOW,
    )
    x = random(3, 2) > 2 if body in BOOLEAN_BODIES else random(3, 2)
    function = {**NUMBER_BODIES, **BOOLEAN_BODIES}[body]
    start = {"BOOL": body.endswith("AND")}.get(kind, float(function.identity or 0))
    expected = function(x[:-1], x[1:])
    if function in (np.minimum, np.maximum):
        expected = function(expected, 0)
    np.testing.assert_allclose(run_references(model, x, start)[0], expected, rtol=1e-6)


@sweep(("options", "values"), [("AddOptions", {"FusedActivationFunction": 1}), ("AddOptions", {})])
def test_a_body_with_an_activation(tmp_path: Path, options: str, values: dict[str, int]) -> None:
    def load_it() -> Model:
        return load_with_body(
            tmp_path,
            "STABLEHLO_REDUCE_WINDOW",
            [(3, 2), ()],
            ["FLOAT32"] * 2,
            ["ADD"],
            "StablehloReduceWindowOptions",
            inner_options=(options, values),
            **WINDOW,
        )

    if values:
        with pytest.raises(BadData, match="fused activation 1"):
            load_it()
    else:
        assert types(load_it()) == [OperationType.TFLITE_REDUCE_WINDOW]


@sweep("body", [[], ["STABLEHLO_TANH"], ["SUB"], ["STABLEHLO_ADD", "STABLEHLO_ADD"]])
def test_bodies_that_are_not_reductions(tmp_path: Path, body: list[str]) -> None:
    with pytest.raises(BadData, match="subgraph"):
        load_with_body(
            tmp_path,
            "STABLEHLO_REDUCE_WINDOW",
            [(3, 2), ()],
            ["FLOAT32"] * 2,
            body,
            "StablehloReduceWindowOptions",
            **WINDOW,
        )
