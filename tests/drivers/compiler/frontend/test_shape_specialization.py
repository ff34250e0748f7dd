"""Models with unspecified shapes are compiled once for each set of shapes, with a bounded cache."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.opencl.models import FLOAT, Models, request_of

import neurald as nd
from neurald.drivers.compiler.frontend.shape_specialization import (
    SpecializingModel,
    is_specified,
    with_assumed_shapes,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.types import Model
from neurald.hal.sync.cancellation import Cancellation

_Op = nd.OperationType


def open_model(rows: int = 0) -> Model:
    models = Models()
    source = models.input(FLOAT, (rows, 3))
    middle = models.add(_Op.ABS, [source], shape=(rows, 3))
    total = models.add(_Op.REDUCE_SUM, [middle, models.constant([0]), models.number(False)], shape=(0,))
    return models.finish(total)


class Compiler:
    """Prepares models on the CPU device, and counts them."""

    def __init__(self) -> None:
        self.shapes: list[Mapping[int, Shape]] = []
        self.cpu = nd.devices()[0]

    def __call__(self, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        self.shapes.append(shapes)
        if any(13 in shape for shape in shapes.values()):
            raise BadData("13 rows are no good")
        return self.cpu.prepare_model(model, PrepareOptions())


def executed(prepared: SpecializingModel, rows: int) -> None:
    array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) - 4
    request, (result,) = request_of(open_model(), [array], [(3,)])
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    np.testing.assert_allclose(result, np.abs(array).sum(0))


def test_unspecified_dimensions_are_assumed_to_be_1() -> None:
    assert is_specified(open_model(2))
    model = open_model()
    assert not is_specified(model)
    found = with_assumed_shapes(model)
    assert found.main.operands[model.main.inputs[0]].dimensions == (1, 3)
    assert found.main.operands[model.main.outputs[0]].dimensions == (3,)
    assert is_specified(found)


def test_each_set_of_shapes_is_compiled_once_while_cached() -> None:
    compiler = Compiler()
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False)
    for rows in (2, 5, 2, 5):
        executed(prepared, rows)
    (index,) = open_model().main.inputs
    assert compiler.shapes == [{index: (2, 3)}, {index: (5, 3)}]
    # Other shapes evict the least recently used variant.
    for rows in range(20, 27):
        executed(prepared, rows)
    executed(prepared, 5)
    assert len(compiler.shapes) == 9
    executed(prepared, 2)
    assert len(compiler.shapes) == 10


def test_reusable_executions_use_the_variant_for_their_shapes() -> None:
    prepared = SpecializingModel(open_model(), Compiler(), owner=None, tolerant=False)
    array = np.ones((4, 3), np.float32)
    request, (result,) = request_of(open_model(), [array], [(3,)])
    assert prepared.create_reusable_execution(request) is None
    prepared.execute(request, ExecuteOptions())
    again = prepared.create_reusable_execution(request)
    assert again is not None
    array[:] = -2
    again(Cancellation())
    np.testing.assert_array_equal(result, np.full(3, 8))


def test_invalid_shapes_fail_the_execution_and_are_not_cached() -> None:
    compiler = Compiler()
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False)
    for _ in range(2):
        request, _ = request_of(open_model(), [np.zeros((13, 3), np.float32)], [(3,)])
        with pytest.raises(OpFailed, match=r"\[13, 3\].*no good"):
            prepared.execute(request, ExecuteOptions())
    assert len(compiler.shapes) == 2
    executed(prepared, 2)


def test_operands_artifact_and_profile() -> None:
    model = open_model()
    prepared = SpecializingModel(model, Compiler(), owner=None, tolerant=True)
    assert prepared.tolerates_changing_inputs
    assert prepared.artifact() is None
    assert prepared.operand(0, is_output=False).dimensions == (0, 3)
    assert prepared.operand(0, is_output=True).type is FLOAT
    for index, is_output in ((1, False), (-1, True)):
        with pytest.raises(BadData, match="the model has 1"):
            prepared.operand(index, is_output=is_output)
