"""Recurrent operators, with floats and with 8-bit weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sweep.form import KINDS, Form, Tensor, simple, tensor

_BATCH, _TIME, _SIZE, _UNITS, _PROJECTED = 2, 3, 4, 5, 3
#: Kind of weights, and whether activations are requantised at every step with a zero point.
_WEIGHTS = (("f32", False), ("q8", False), ("q8", True), ("qu8", False))


def _weights(shape: Sequence[int], kind: str) -> Tensor:
    if kind == "f32":
        return tensor(shape, is_constant=True, low=-0.5, high=0.5)
    found = replace(KINDS[kind], scale=(0.005,), zero=(0,))
    return tensor(shape, found, is_constant=True, low=-127 if kind == "q8" else 1, high=127)


def _reals(length: int) -> Tensor:
    return tensor((length,), is_constant=True, low=-0.5, high=0.5)


def _state(*shape: int) -> Tensor:
    return tensor(shape, is_variable=True)


def _sequence(*, time_major: bool) -> tuple[int, int, int]:
    return (_TIME, _BATCH, _SIZE) if time_major else (_BATCH, _TIME, _SIZE)


def _lstm(
    kind: str,
    *,
    cifg: bool = False,
    peephole: bool = False,
    projection: bool = False,
    projection_bias: bool = False,
) -> list[Tensor | None]:
    """Returns weights and biases of a direction: inputs 1 to 17."""
    given = _PROJECTED if projection else _UNITS
    gates: list[Tensor | None] = []
    for size in (_SIZE, given):
        gates += [
            None if cifg else _weights((_UNITS, size), kind),
            *(_weights((_UNITS, size), kind) for _ in range(3)),
        ]
    peeps = [
        None if cifg or not peephole else _weights((_UNITS,), kind),
        *(_weights((_UNITS,), kind) if peephole else None for _ in range(2)),
    ]
    biases = [None if cifg else _reals(_UNITS), *(_reals(_UNITS) for _ in range(3))]
    projected = [
        _weights((_PROJECTED, _UNITS), kind) if projection else None,
        _reals(_PROJECTED) if projection_bias else None,
    ]
    return [*gates, *peeps, *biases, *projected]


_LSTM_FORMS: tuple[tuple[str, dict[str, bool]], ...] = (
    ("plain", {}),
    ("coupled", {"cifg": True}),
    ("peepholes", {"peephole": True}),
    ("coupled, peepholes", {"cifg": True, "peephole": True}),
    ("projection", {"projection": True}),
    ("projection with bias", {"projection": True, "projection_bias": True}),
    ("all", {"projection": True, "projection_bias": True, "peephole": True}),
)


def lstm(operator: str) -> Iterator[Form]:
    """Yields forms of LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM."""
    is_sequence = operator != "LSTM"
    options = "UnidirectionalSequenceLSTMOptions" if is_sequence else "LSTMOptions"
    for kind, asymmetric in _WEIGHTS:
        for name, parts in _LSTM_FORMS:
            given = _PROJECTED if parts.get("projection") else _UNITS
            for norms in (False, True):
                for major in (False, True) if is_sequence else (False,):
                    for clip in (0.0, 0.5):
                        shape = _sequence(time_major=major) if is_sequence else (_BATCH, _SIZE)
                        inputs = [
                            tensor(shape),
                            *_lstm(kind, **parts),
                            _state(_BATCH, given),
                            _state(_BATCH, _UNITS),
                        ]
                        if norms:
                            inputs += [
                                None if parts.get("cifg") else _reals(_UNITS),
                                *(_reals(_UNITS) for _ in range(3)),
                            ]
                        fields: dict[str, Any] = {
                            "FusedActivationFunction": 4,
                            "CellClip": clip,
                            "ProjClip": clip,
                            "AsymmetricQuantizeInputs": asymmetric,
                        }
                        if is_sequence:
                            fields["TimeMajor"] = major
                        title = f"{kind}{' asymmetric' if asymmetric else ''}, {name}{', norms' if norms else ''}{', time major' if major else ''}, clip {clip}"
                        form = simple(
                            operator, title, inputs, (tensor((*shape[:-1], given)),), options, **fields
                        )
                        yield replace(form, tolerance=1e-5 if kind == "f32" else 2e-2)
    for activation in (0, 1, 3):
        shape = _sequence(time_major=False) if is_sequence else (_BATCH, _SIZE)
        inputs = [tensor(shape), *_lstm("f32"), _state(_BATCH, _UNITS), _state(_BATCH, _UNITS)]
        yield simple(
            operator,
            f"activation {activation}",
            inputs,
            (tensor((*shape[:-1], _UNITS)),),
            options,
            FusedActivationFunction=activation,
        )


def bidirectional_lstm(operator: str) -> Iterator[Form]:
    for kind, asymmetric in _WEIGHTS:
        for name, parts in _LSTM_FORMS:
            given = _PROJECTED if parts.get("projection") else _UNITS
            for major in (False, True):
                for merge in (False, True):
                    for auxiliary in (False, True):
                        shape = _sequence(time_major=major)
                        states = [_state(_BATCH, given), _state(_BATCH, _UNITS)] * 2
                        extra: list[Tensor | None] = [None] * 9
                        if auxiliary:
                            weights = [
                                None if parts.get("cifg") else _weights((_UNITS, _SIZE), kind),
                                *(_weights((_UNITS, _SIZE), kind) for _ in range(3)),
                            ]
                            extra = [tensor(shape), *weights, *weights]
                        inputs = [
                            tensor(shape),
                            *_lstm(kind, **parts),
                            *_lstm(kind, **parts),
                            *states,
                            *extra,
                        ]
                        outputs = (
                            [tensor((*shape[:-1], given * 2))]
                            if merge
                            else [tensor((*shape[:-1], given))] * 2
                        )
                        fields = {
                            "FusedActivationFunction": 4,
                            "TimeMajor": major,
                            "MergeOutputs": merge,
                            "AsymmetricQuantizeInputs": asymmetric,
                        }
                        title = f"{kind}{' asymmetric' if asymmetric else ''}, {name}{', time major' if major else ''}{', merged' if merge else ''}{', auxiliary' if auxiliary else ''}"
                        form = simple(
                            operator, title, inputs, outputs, "BidirectionalSequenceLSTMOptions", **fields
                        )
                        yield replace(form, tolerance=1e-5 if kind == "f32" else 2e-2)


def rnn(operator: str) -> Iterator[Form]:
    """Yields forms of RNN and UNIDIRECTIONAL_SEQUENCE_RNN."""
    is_sequence = operator != "RNN"
    options = "SequenceRNNOptions" if is_sequence else "RNNOptions"
    for kind, asymmetric in _WEIGHTS:
        for major in (False, True) if is_sequence else (False,):
            for activation in range(5):
                shape = _sequence(time_major=major) if is_sequence else (_BATCH, _SIZE)
                inputs = [
                    tensor(shape),
                    _weights((_UNITS, _SIZE), kind),
                    _weights((_UNITS, _UNITS), kind),
                    _reals(_UNITS),
                    _state(_BATCH, _UNITS),
                ]
                fields: dict[str, Any] = {
                    "FusedActivationFunction": activation,
                    "AsymmetricQuantizeInputs": asymmetric,
                }
                if is_sequence:
                    fields["TimeMajor"] = major
                title = f"{kind}{' asymmetric' if asymmetric else ''}{', time major' if major else ''}, activation {activation}"
                form = simple(operator, title, inputs, (tensor((*shape[:-1], _UNITS)),), options, **fields)
                yield replace(form, tolerance=1e-5 if kind == "f32" else 2e-2)


def bidirectional_rnn(operator: str) -> Iterator[Form]:
    for kind, asymmetric in _WEIGHTS:
        for major in (False, True):
            for merge in (False, True):
                for auxiliary in (None, "input", "weights"):
                    shape = _sequence(time_major=major)
                    part = [
                        _weights((_UNITS, _SIZE), kind),
                        _weights((_UNITS, _UNITS), kind),
                        _reals(_UNITS),
                        _state(_BATCH, _UNITS),
                    ]
                    extra: list[Tensor | None] = [None] * 3
                    if auxiliary:
                        weights = _weights((_UNITS, _SIZE), kind) if auxiliary == "weights" else None
                        extra = [tensor(shape), weights, weights]
                    outputs = (
                        [tensor((*shape[:-1], 2 * _UNITS))] if merge else [tensor((*shape[:-1], _UNITS))] * 2
                    )
                    fields = {
                        "TimeMajor": major,
                        "FusedActivationFunction": 4,
                        "MergeOutputs": merge,
                        "AsymmetricQuantizeInputs": asymmetric,
                    }
                    title = f"{kind}{' asymmetric' if asymmetric else ''}{', time major' if major else ''}{', merged' if merge else ''}, auxiliary {auxiliary}"
                    form = simple(
                        operator,
                        title,
                        [tensor(shape), *part, *part, *extra],
                        outputs,
                        "BidirectionalSequenceRNNOptions",
                        **fields,
                    )
                    yield replace(form, tolerance=1e-5 if kind == "f32" else 2e-2)


def svdf(operator: str) -> Iterator[Form]:
    for kind, asymmetric in _WEIGHTS:
        for rank in (1, 2):
            for bias in (False, True):
                for activation in (0, 1):
                    filters = _UNITS * rank
                    inputs = [
                        tensor((_BATCH, _SIZE)),
                        _weights((filters, _SIZE), kind),
                        _weights((filters, 6), kind),
                        _reals(_UNITS) if bias else None,
                        _state(_BATCH, filters * 6),
                    ]
                    fields = {
                        "Rank": rank,
                        "FusedActivationFunction": activation,
                        "AsymmetricQuantizeInputs": asymmetric,
                    }
                    title = f"{kind}{' asymmetric' if asymmetric else ''}, rank {rank}, bias {bias}, activation {activation}"
                    form = simple(
                        operator, title, inputs, (tensor((_BATCH, _UNITS)),), "SVDFOptions", **fields
                    )
                    yield replace(form, tolerance=1e-5 if kind == "f32" else 2e-2)
    for times in ("q16", "q8"):
        for activation in (0, 1):
            weights = (
                _weights((_UNITS, _SIZE), "q8"),
                tensor(
                    (_UNITS, 6),
                    replace(KINDS[times], scale=(0.001,), zero=(0,)),
                    is_constant=True,
                    low=-100,
                    high=100,
                ),
            )
            summand = tensor(
                (_UNITS,), replace(KINDS["q8"], type="INT32", scale=(2e-5,), zero=(0,)), is_constant=True
            )
            state = tensor(
                (_BATCH, _UNITS * 6), replace(KINDS[times], scale=(0.02,), zero=(0,)), is_variable=True
            )
            yield simple(
                operator, f"integers {times}, activation {activation}", (tensor((_BATCH, _SIZE), "q8z"), *weights, summand, state),
                (tensor((_BATCH, _UNITS), "q8"),), "SVDFOptions", Rank=1, FusedActivationFunction=activation,
            )  # fmt: skip


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": bidirectional_rnn,
    "LSTM": lstm,
    "RNN": rnn,
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": rnn,
}
