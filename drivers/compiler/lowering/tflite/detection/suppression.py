"""Lowers NON_MAX_SUPPRESSION_V4 and NON_MAX_SUPPRESSION_V5."""

import numpy as np

from neurald.drivers.compiler.ir.algorithm import Suppression
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, index, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _suppression(call: Call, builder: Builder) -> tuple[Value, ...]:
    limit = call.scalar_in("limit", 0)
    names = ("iou_threshold", "score_threshold", *(("sigma",) if "sigma" in call.binding.inputs else ()))
    limits = [builder.reshape(builder.value(call, name), (1,)) for name in names]
    if len(limits) == 2:
        limits.append(builder.constant(np.zeros(1, np.float32)))
    found = builder.procedure(
        Suppression(limit=limit),
        builder.value(call, "boxes"),
        builder.value(call, "scores"),
        *limits,
        output=(2 * limit + 1,),
    )

    def score(at: Expression) -> Expression:
        return apply(Op.REINTERPRET, load(found, (at + limit,)), type=Scalar.FLOAT32)

    indices = builder.compute((limit,), lambda at: load(found, (at,)))
    count = builder.compute((), lambda: load(found, (index(2 * limit),)))
    scores = (builder.compute((limit,), score),) if "sigma" in call.binding.inputs else ()
    return indices, *scores, count


LOWERINGS: Lowerings = {
    OperationType.TFLITE_NON_MAX_SUPPRESSION_V4: _suppression,
    OperationType.TFLITE_NON_MAX_SUPPRESSION_V5: _suppression,
}
