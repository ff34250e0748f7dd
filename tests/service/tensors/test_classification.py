from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.service.tensors.classification import (
    ClassScores,
    align_labels,
    best,
    class_output,
    class_scores,
    read_labels,
)

pytestmark = pytest.mark.quick

Array = np.ndarray[Any, np.dtype[Any]]


def chain(
    *types: OperationType,
    kind: OperandType = OperandType.TENSOR_FLOAT32,
    scale: float = 0.0,
    zero_point: int = 0,
) -> Model:
    """Builds a model that runs these operations one after another."""
    count = len(types) + 1
    operands = tuple(
        Operand(
            type=kind, dimensions=(1, 4), scale=scale, zero_point=zero_point, lifetime=Lifetime.SUBGRAPH_INPUT
        )
        for _ in range(count)
    )
    operations = tuple(Operation(type=step, inputs=(n,), outputs=(n + 1,)) for n, step in enumerate(types))
    return Model(main=Subgraph(operands=operands, operations=operations, inputs=(0,), outputs=(count - 1,)))


def array(*values: float) -> Array:
    return np.array([values], np.float32)


LOGITS = array(-1.0, 3.0, 0.5, 0.0)
SOFTMAXED = np.exp(LOGITS[0]) / np.exp(LOGITS[0]).sum()


@sweep(
    ("shapes", "expected"),
    [
        ([(1, 10)], 0),
        ([(10,)], 0),
        ([(1, 1, 1, 10)], 0),
        ([(1, 1), (1, 10)], 1),
        ([(1, 1)], None),
        ([()], None),
        ([(1, 0)], None),
        ([(3, 10)], None),
        ([(1, 10), (1, 10)], None),
        ([(1, 10, 4), (1, 10), (1, 10), (1,)], None),
        ([], None),
    ],
)
def test_which_output_is_a_classification(shapes: list[tuple[int, ...]], expected: int | None) -> None:
    assert class_output([np.zeros(shape) for shape in shapes]) == expected


def test_softmax_gives_probabilities() -> None:
    scores = class_scores(chain(OperationType.SOFTMAX), 0, array(0.1, 0.2, 0.3, 0.4))
    np.testing.assert_allclose(scores.values, [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    assert scores.remark == ""


def test_the_writer_is_found_behind_reshape_and_quantize() -> None:
    # The sum differs much from 1, as it does if many small probabilities are rounded to 0.
    found = class_scores(
        chain(OperationType.SOFTMAX, OperationType.RESHAPE, OperationType.DEQUANTIZE),
        0,
        array(0.1, 0.2, 0, 0),
    )
    np.testing.assert_allclose(found.values, [0.1, 0.2, 0, 0], rtol=1e-6)


def test_logistic_gives_independent_scores() -> None:
    scores = class_scores(chain(OperationType.LOGISTIC), 0, array(0.9, 0.8, 0.1, 0.0))
    np.testing.assert_allclose(scores.values, [0.9, 0.8, 0.1, 0.0], rtol=1e-6)
    assert "independent probability" in scores.remark


def test_log_softmax() -> None:
    scores = class_scores(chain(OperationType.LOG_SOFTMAX), 0, np.log(SOFTMAXED)[None])
    np.testing.assert_allclose(scores.values, SOFTMAXED, rtol=1e-5)


@sweep("types", [(), (OperationType.FULLY_CONNECTED,), (OperationType.ADD, OperationType.RESHAPE)])
def test_logits_go_through_softmax_and_it_is_said(types: tuple[OperationType, ...]) -> None:
    scores = class_scores(chain(*types), 0, LOGITS)
    np.testing.assert_allclose(scores.values, SOFTMAXED, rtol=1e-6)
    assert "softmax" in scores.remark


def test_huge_logits_do_not_overflow() -> None:
    scores = class_scores(chain(), 0, array(3e38, 0, -3e38, 3e38))
    np.testing.assert_allclose(scores.values, [0.5, 0, 0, 0.5])


def test_numbers_that_sum_to_one_are_probabilities() -> None:
    scores = class_scores(chain(OperationType.MUL), 0, array(0.1, 0.2, 0.3, 0.4))
    np.testing.assert_allclose(scores.values, [0.1, 0.2, 0.3, 0.4], rtol=1e-6)


def test_quantised_scores_are_real_values() -> None:
    model = chain(
        OperationType.SOFTMAX, kind=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, scale=1 / 256, zero_point=-128
    )
    scores = class_scores(model, 0, np.array([[-128, 127, -64, 0]], np.int8))
    np.testing.assert_allclose(scores.values, [0, 255 / 256, 0.25, 0.5])


@sweep("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers(bad: float) -> None:
    with pytest.raises(BadData, match="finite"):
        class_scores(chain(), 0, array(0, bad, 1, 2))


def test_best_are_sorted_and_ties_keep_their_order() -> None:
    scores = ClassScores(values=np.array([0.2, 0.4, 0.2, 0.2]))
    assert [g.index for g in best(scores, 3, None)] == [1, 0, 2]
    guesses = best(scores, 9, ["a", "b", "c", "d"])
    assert [(g.index, g.label) for g in guesses] == [(1, "b"), (0, "a"), (2, "c"), (3, "d")]
    assert guesses[0].probability == 0.4


def test_labels_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes("\ufeffcat\r\nGroßer Hund \n\nfish\n\n\n".encode())
    assert read_labels(path) == ["cat", "Großer Hund", "", "fish"]


@sweep("content", [b"", b"\n\n", b"\xff\xfe\x00", b"a\0b\n", bytes(range(256))])
def test_files_that_hold_no_labels(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "labels.txt").write_bytes(content)
    with pytest.raises(BadData, match=r"labels\.txt is not a label file"):
        read_labels(tmp_path / "labels.txt")


def test_endless_label_files(tmp_path: Path) -> None:
    with (tmp_path / "labels.txt").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(BadData, match="too large"):
        read_labels(tmp_path / "labels.txt")


def test_as_many_labels_as_classes() -> None:
    assert align_labels(["a", "b"], 2) == (["a", "b"], "")


def test_background_is_added_or_left_out() -> None:
    labels, remark = align_labels(["a", "b"], 3)
    assert labels == ["background", "a", "b"]
    assert "background" in remark
    labels, remark = align_labels(["nothing", "a", "b"], 2)
    assert labels == ["a", "b"]
    assert "background" in remark


def test_spare_labels_are_left_out_and_it_is_said() -> None:
    labels, remark = align_labels(["a", "b", "c", "d", "e"], 2)
    assert labels == ["a", "b"]
    assert "5 labels for 2 classes" in remark


def test_too_few_labels() -> None:
    with pytest.raises(BadData, match="2 labels; the model has 10 classes"):
        align_labels(["a", "b"], 10)
