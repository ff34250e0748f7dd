"""Basic cells of the first tier give the results of references."""

import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import SIGNED, check
from support.cpu.recurrent_layers import BOOL, INT, layer, rnn_parameters


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("activation", [0, 1, 2, 3, 4, 6])
def test_basic_cells(target: str, activation: int) -> None:
    constants, state = rnn_parameters("", 7, 19), {"hidden_state_in": (3, 19)}
    scalars = {"cell_activation": (INT, activation)}
    step = layer(
        "RNN",
        {"input": (3, 7), **state},
        constants,
        scalars,
        {"hidden_state_out": (3, 19), "output": (3, 19)},
    )
    check(step, target, threads=2)
    for time_major, leading in ((0, (3, 5)), (1, (5, 3))):
        for states in ({}, {"hidden_state_out": (3, 19)}):
            sequence = layer(
                "UNIDIRECTIONAL_SEQUENCE_RNN",
                {"input": (*leading, 7), **state},
                constants,
                {**scalars, "time_major": (INT, time_major)},
                {"output": (*leading, 19), **states},
            )
            check(sequence, target, threads=2)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_basic_cells_of_8_bit_weights(asymmetric: bool) -> None:
    model = layer(
        "TFLITE_UNIDIRECTIONAL_SEQUENCE_RNN",
        {"input": (3, 5, 7), "hidden_state_in": (3, 19)},
        rnn_parameters("", 7, 19),
        {"cell_activation": (INT, 4), "time_major": (INT, 0), "asymmetric": (BOOL, asymmetric)},
        {"output": (3, 5, 19)},
        SIGNED,
    )
    check(model, TARGETS_HERE[-1], rtol=1e-2)
