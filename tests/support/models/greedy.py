"""Small models that need much memory, and requests for models of float32 vectors."""

import numpy as np

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request

_T, _P = nd.OperandType, nd.OperationType


def tiled(count: int, *, is_constant: bool = False, is_dynamic: bool = False) -> Model:
    """Creates a model that computes the maximum of one number that is repeated `count` times.

    Args:
        count: number of repetitions, in rows of two; of an odd number, one less. The model has an
            intermediate value of this many float32 elements, and its product with a column of two,
            which no compiler can eliminate.
        is_constant: whether the repeated number is a constant; the input is then added at the end.
        is_dynamic: whether an input gives the number of rows.
    """
    builder = nd.ModelBuilder()

    def operand(*shape: int, value: object = None, kind: nd.OperandType = _T.TENSOR_FLOAT32) -> int:
        index = builder.add_operand(kind, shape)
        if value is not None:
            builder.set_operand_value(index, np.full(shape, value, kind.dtype))
        return index

    given = operand(1, 1)
    source = operand(1, 1, value=3) if is_constant else given
    multiples = builder.add_operand(_T.TENSOR_INT32, (2,))
    if not is_dynamic:
        builder.set_operand_value(multiples, _multiples(count))
    rows = 0 if is_dynamic else count // 2
    none = operand(value=0, kind=_T.INT32)
    repeated, products, largest = operand(rows, 2), operand(rows, 1), operand(1)
    builder.add_operation(_P.TILE, inputs=[source, multiples], outputs=[repeated])
    weights, bias = operand(1, 2, value=0.5), operand(1, value=0)
    builder.add_operation(_P.FULLY_CONNECTED, inputs=[repeated, weights, bias, none], outputs=[products])
    axes, keeps = operand(1, value=0, kind=_T.TENSOR_INT32), operand(value=False, kind=_T.BOOL)
    builder.add_operation(_P.REDUCE_MAX, inputs=[products, axes, keeps], outputs=[largest])
    if is_constant:
        total = operand(1, 1)
        builder.add_operation(_P.ADD, inputs=[largest, given, none], outputs=[total])
        largest = total
    builder.identify_inputs_and_outputs([given, *([multiples] if is_dynamic else [])], [largest])
    return builder.finish()


def tiled_request(count: int | None = None) -> tuple[Request, "np.ndarray[tuple[int], np.dtype[np.float32]]"]:
    """Returns a request for `tiled` and its output; `count` is an input of a dynamic model."""
    source, largest = np.full(1, 3, np.float32), np.zeros(1, np.float32)
    arrays = [source, *([] if count is None else [_multiples(count)])]
    pools = [HostMemory(each) for each in (*arrays, largest)]
    arguments = [Argument(pool=number, length=pool.size) for number, pool in enumerate(pools)]
    request = Request(
        inputs=tuple(arguments[: len(arrays)]), outputs=tuple(arguments[len(arrays) :]), pools=tuple(pools)
    )
    return request, largest


def _multiples(count: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Returns how often `tiled` repeats its number in each dimension."""
    return np.array([count // 2, 2], np.int32)
