"""Two cells, one for each direction, give the results of references on the first tier."""

from collections.abc import Sequence

import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import check
from support.cpu.recurrent_layers import BOOL, INT, layer, lstm_parameters, rnn_parameters

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("auxiliary", [0, 6])
def test_both_directions(target: str, merged: bool, time_major: bool, auxiliary: int) -> None:
    batch, steps, size, forward, backward = 2, 5, 7, 19, 9
    leading = (steps, batch) if time_major else (batch, steps)
    both = {"fw_": (size, forward), "bw_": (auxiliary or size, backward)}
    given: dict[str, Sequence[int]] = {"input": (*leading, size)}
    # Executions could omit it if it was an input of the model.
    second = {"aux_input": (*leading, auxiliary)} if auxiliary else {}
    outputs: dict[str, Sequence[int]] = {"fw_output": (*leading, forward)}
    if merged:
        outputs = {"fw_output": (*leading, forward + backward)}
    else:
        outputs["bw_output"] = (*leading, backward)
    flags = {"time_major": (BOOL, time_major), "merge_outputs": (BOOL, merged)}
    rnn = layer(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        {**given, **{f"{prefix}hidden_state_in": (batch, units) for prefix, (_, units) in both.items()}},
        {
            **second,
            **{
                name: shape
                for prefix, sizes in both.items()
                for name, shape in rnn_parameters(prefix, *sizes).items()
            },
        },
        {"cell_activation": (INT, 4), **flags},
        outputs,
    )
    check(rnn, target, threads=2)
    states = {
        f"{prefix}{state}_state_{end}": (batch, units)
        for end in ("in", "out")
        for prefix, (_, units) in both.items()
        for state in ("output", "cell")
    }
    lstm = layer(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        {**given, **{name: shape for name, shape in states.items() if name.endswith("_in")}},
        {
            **second,
            **{
                name: shape
                for prefix, sizes in both.items()
                for name, shape in lstm_parameters(prefix, *sizes).items()
            },
        },
        {
            "cell_activation": (INT, 4),
            "cell_clip": (nd.OperandType.FLOAT32, 0.0),
            "projection_clip": (nd.OperandType.FLOAT32, 0.0),
            **flags,
        },
        {**outputs, **{name: shape for name, shape in states.items() if name.endswith("_out")}},
    )
    check(lstm, target, threads=2)
