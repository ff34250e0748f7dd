"""Integer LSTM cells: unusual shapes, and scales that are refused."""

import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate_all, given, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array

INT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT16_SYMM
INT32 = OperandType.TENSOR_INT32
SIZE, UNITS = 3, 2
STATE = 2.0**-11


def evaluate(
    shape: tuple[int, ...],
    *,
    batch: int,
    time_major: bool = True,
    state: float = STATE,
    hidden_scale: float = 2.0**-7,
    hidden_zero: int = 0,
    norm_scale: float = 2.0**-11,
    norm: bool = False,
    new_state: float | None = None,
) -> tuple[Array, ...]:
    rng = np.random.default_rng(0)

    def quantized(kind: OperandType, scale: float, *of: int) -> Given:
        return given(kind, rng.integers(-100, 100, of), scale)

    gates = range(4)
    return evaluate_all(
        OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            quantized(INT8, 2.0**-6, *shape),
            *(quantized(INT8, 2.0**-7, UNITS, SIZE) for _ in gates),
            *(quantized(INT8, 2.0**-7, UNITS, UNITS) for _ in gates),
            *(omitted(INT16) for _ in range(3)),
            *(quantized(INT32, 0.0, UNITS) for _ in gates),
            omitted(INT8),
            omitted(INT32),
            given(INT8, np.zeros((batch, UNITS)), 2.0**-7),
            given(INT16, np.zeros((batch, UNITS)), state),
            *scalars(4, 0.0, 0.0, time_major),
            *(quantized(INT16, 2.0**-14, UNITS) if norm else omitted(INT16) for _ in gates),
            *scalars(*[norm_scale] * 4, hidden_zero, hidden_scale),
        ),
        wanted(INT8, 2.0**-7),
        wanted(INT8, 2.0**-7),
        wanted(INT16, state if new_state is None else new_state),
    )


@sweep(
    ("shape", "batch", "time_major"),
    [
        ((1, SIZE), 1, True),
        ((0, SIZE), 0, False),
        ((0, 2, SIZE), 2, True),
        ((4, 0, SIZE), 0, True),
        ((2, 5, SIZE), 2, False),
    ],
)
def test_shapes(shape: tuple[int, ...], batch: int, *, time_major: bool) -> None:
    output, last, state = evaluate(shape, batch=batch, time_major=time_major, norm=True)
    assert output.shape == (*shape[:-1], UNITS)
    assert last.shape == state.shape == (batch, UNITS)
    assert output.dtype == last.dtype == np.int8
    if shape[-2] and len(shape) == 3 and not time_major:
        assert np.array_equal(output[:, -1], last)


def test_a_step_is_a_sequence_of_one() -> None:
    step, sequence = evaluate((2, SIZE), batch=2), evaluate((1, 2, SIZE), batch=2)
    assert np.array_equal(step[0], sequence[0][0])
    assert np.array_equal(step[2], sequence[2])


def test_scales_of_the_sums_matter_with_normalization_only() -> None:
    plain, other = evaluate((1, SIZE), batch=1), evaluate((1, SIZE), batch=1, norm_scale=0.0)
    assert np.array_equal(plain[0], other[0])
    with pytest.raises(BadData, match="input_intermediate_scale"):
        evaluate((1, SIZE), batch=1, norm_scale=0.0, norm=True)


@sweep("hidden_scale", [0.0, -1.0, float("inf"), float("nan")])
def test_hidden_scale(hidden_scale: float) -> None:
    with pytest.raises(BadData, match="hidden_state_scale"):
        evaluate((1, SIZE), batch=1, hidden_scale=hidden_scale)


@sweep("scale", [1e-38, 1e38])
def test_scales_at_the_ends_of_the_range(scale: float) -> None:
    output, *_ = evaluate((1, SIZE), batch=1, hidden_scale=scale)
    assert output.dtype == np.int8


@sweep("hidden_zero", [-129, 128])
def test_hidden_zero_point(hidden_zero: int) -> None:
    with pytest.raises(BadData, match="hidden_state_zero_point"):
        evaluate((1, SIZE), batch=1, hidden_zero=hidden_zero)


@sweep("state", [2.0**-16, 2.0**-8, 0.0004])
def test_state_scale(state: float) -> None:
    with pytest.raises(BadData, match="cell_state_in"):
        evaluate((1, SIZE), batch=1, state=state)


def test_states_keep_their_scales() -> None:
    with pytest.raises(BadData, match="cell_state_out"):
        evaluate((1, SIZE), batch=1, new_state=STATE / 2)
