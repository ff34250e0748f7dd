from pathlib import Path

import numpy as np
from support.models.whole_model import run_references
from support.tflite.builder import TfliteModel
from support.tflite.operator import Load, fixed, shaped
from support.tflite.results import check

from neurald.runtime.tflite import load_tflite


def test_top_k_prefers_lower_indexes(tmp_path: Path) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    source, k = graph.tensor((4,)), graph.tensor((), "INT32", data=np.array(3))
    graph.inputs, graph.outputs = (source,), (graph.tensor((3,)), graph.tensor((3,), "INT32"))
    graph.operator("TOPK_V2", (source, k), graph.outputs)
    values, positions = run_references(load_tflite(file.write(tmp_path / "top.tflite")), [3, 7, 1, 7])
    assert values.tolist() == [7, 7, 3]
    assert positions.tolist() == [1, 3, 0]


def test_arg_max_of_equal_values(load: Load) -> None:
    x = np.array([3, 7, 7, 1], np.float32)
    model = load("ARG_MAX", (shaped(4), fixed(0, "INT32")), shaped(type_="INT32", has_rank=True))
    check(model, np.array(1, np.int32), x)


def test_where(load: Load) -> None:
    model = load("WHERE", (shaped(4, type_="BOOL"),), shaped(1, 1, type_="INT64"))
    check(model, np.array([[0], [3]], np.int64), [True, False, False, True])
