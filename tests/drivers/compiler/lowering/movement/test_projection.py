import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.single_operation import FLOAT_TYPES, Given, given, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

PROJECTION = OperationType.LSH_PROJECTION
INT32, QUANT8 = OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_ASYMM
generator = np.random.default_rng(11)


def _source(kind: OperandType, shape: tuple[int, ...]) -> Given:
    if kind is QUANT8:
        return given(kind, generator.integers(0, 256, shape), 0.5, 3)
    values = generator.standard_normal(shape) * (1 << 20 if kind is INT32 else 1)
    return given(kind, np.round(values) if kind is INT32 else values)


@sweep("type_", [1, 2, 3])
@sweep("kind", (*FLOAT_TYPES, INT32, QUANT8))
@sweep("float_type", FLOAT_TYPES)
def test_signatures(float_type: OperandType, kind: OperandType, type_: int) -> None:
    for functions, bits, shape in (
        (1, 1, (1,)),
        (4, 3, (5, 2)),
        (2, 31, (3, 7, 5)),
        (4, 2, (0, 3)),
        (3, 4, (6, 0)),
        (1, 32, (2, 100)),
    ):
        seeds = given(float_type, generator.standard_normal((functions, bits)))
        for weight in (
            omitted(float_type),
            given(float_type, generator.standard_normal(shape[0])),
        ):
            inputs = [seeds, _source(kind, shape), weight, *scalars(type_)]
            data = (0, 1) if weight.value is None else (0, 1, 2)
            expect_same(PROJECTION, inputs, wanted(INT32), data=data)
