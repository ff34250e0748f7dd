"""Lets each device compute something whose result is known."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import neurald as nd
from neurald.hal.wording import milliseconds, three_digits
from neurald.runtime.devices.daemons import connection_to
from neurald.runtime.devices.extensions import conflicts
from neurald.runtime.devices.measuring import failures, measure_new
from neurald.runtime.devices.remotes import configured_remotes
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.manager import examine_starts

#: Time limit for preparing a trial, and for executing it.
_PREPARE_S: Final = 60.0
_EXECUTE_S: Final = 10.0
#: Time limit for connecting to a daemon of another host.
_CONNECT_S: Final = 5.0
_COUNT: Final = 1000
_TOLERANCE: Final = 2e-3


@dataclass(frozen=True, slots=True)
class _Trial:
    """A model with inputs and the outputs that they give."""

    name: str
    model: nd.Model
    inputs: tuple["np.ndarray[Any, Any]", ...]
    expected: "np.ndarray[Any, Any]"
    tolerance: float


def examine_devices() -> Iterator[Finding]:
    """Yields for each device whether it computes, and for drivers that cannot start, why.

    Starts the drivers of all devices.
    """
    measure_new(retries=True)
    devices = nd.devices()
    disabled = conflicts(devices)
    for device in devices:
        yield _computes(device)
        yield from _extensions(device, disabled)
    for address, reason in failures().items():
        yield Finding(
            subject=address,
            found=f"no device: {reason}",
            severity=Severity.WARNING,
            advice="mend the cause, then `neurald devices` tries again",
        )
    yield from _remotes()
    yield from examine_starts()


def _remotes() -> Iterator[Finding]:
    """Yields the configured daemons of other hosts that cannot be reached, or refuse this user."""
    # Settings that are not valid count as none; the examination of the settings reports them.
    for name, settings in configured_remotes().items():
        connection = connection_to(settings.address)
        connection.use_tls(settings.files())
        try:
            connection.connect(time.monotonic() + _CONNECT_S)
        except nd.Error as error:
            yield Finding(
                subject=f"remote {name}",
                found=f"no device: {error}",
                severity=Severity.WARNING,
                advice=f"mend the cause, or remove remotes.{name} from the configuration",
            )


def _computes(device: nd.Device) -> Finding:
    """Runs every trial that a device supports."""
    subject = f"device {device.name}"
    done: list[str] = []
    reasons: list[str] = []
    try:
        for trial in _trials():
            (verdicts,) = nd.supported_operations(trial.model, [device]).values()
            refused = [verdict.reason for verdict in verdicts if not verdict.ok]
            if refused:
                reasons += filter(None, refused)
                continue
            prepare_s, execute_s, error = _run(trial, device)
            if error > trial.tolerance:
                return Finding(
                    subject=subject,
                    found=f"{trial.name}: a result differs by {error:.3g} from the right one",
                    severity=Severity.PROBLEM,
                    advice="do not use the device; `neurald conformance` finds out which operations are wrong",
                )
            done.append(
                f"{trial.name} right, prepared in {three_digits(prepare_s)} s, run in {milliseconds(execute_s)}"
            )
    except nd.Error as error:
        return Finding(
            subject=subject,
            found=f"{error.code.name}: {error}",
            severity=Severity.PROBLEM,
            advice="`neurald status` and the log of its driver may tell more",
        )
    if not done:
        return Finding(
            subject=subject,
            found="supports none of the operations that are tried, so nothing was computed"
            + "".join(f"; {each}" for each in dict.fromkeys(reasons)),
            severity=Severity.NOTE,
            advice="`neurald conformance` checks what it supports",
        )
    return Finding(subject=subject, found="; ".join(done))


def _run(trial: _Trial, device: nd.Device) -> tuple[float, float, float]:
    """Returns how long preparing and executing took, and the largest error."""
    builder = nd.CompilationBuilder(trial.model, [device])
    builder.set_caching(None)
    builder.set_timeout(_PREPARE_S)
    began = time.perf_counter()
    compilation = builder.finish()
    prepared = time.perf_counter()
    execution = nd.Execution(compilation)
    output = np.zeros_like(trial.expected)
    for index, value in enumerate(trial.inputs):
        execution.set_input(index, value)
    execution.set_output(0, output)
    execution.set_timeout(_EXECUTE_S)
    execution.compute()
    ended = time.perf_counter()
    difference = np.abs(output.astype(np.float64) - trial.expected.astype(np.float64))
    # NaN is the largest of all errors.
    error = float(np.nan_to_num(difference, nan=np.inf).max())
    return prepared - began, ended - prepared, error


def _extensions(device: nd.Device, disabled: Mapping[str, str]) -> Iterator[Finding]:
    for name in device.extensions:
        if name in disabled:
            yield Finding(
                subject=f"device {device.name}",
                found=f"extension {name} is disabled: {disabled[name]}",
                severity=Severity.WARNING,
                advice="install drivers that declare the same extension",
            )


def _trials() -> Iterator[_Trial]:
    """Yields a sum and a matrix product in float32, and a sum of quantised values."""
    values = np.arange(_COUNT, dtype=np.float32) / 8
    yield _Trial("float32 sum", _sum(nd.OperandType.TENSOR_FLOAT32), (values, values), 2 * values, _TOLERANCE)
    x = (np.arange(64, dtype=np.float32) % 7).reshape(1, 64)
    weights = (np.arange(32 * 64, dtype=np.float32) % 5 - 2).reshape(32, 64)
    yield _Trial("float32 product", _product(weights), (x,), x @ weights.T, _TOLERANCE)
    steps = (np.arange(_COUNT) % 100).astype(np.uint8)
    yield _Trial(
        "quantised sum", _sum(nd.OperandType.TENSOR_QUANT8_ASYMM, scale=1.0), (steps, steps), 2 * steps, 1
    )


def _sum(kind: nd.OperandType, scale: float = 0.0) -> nd.Model:
    builder = nd.ModelBuilder()
    first, second, result = (builder.add_operand(kind, (_COUNT,), scale=scale) for _ in range(3))
    builder.add_operation(nd.OperationType.ADD, [first, second, _activation(builder)], [result])
    builder.identify_inputs_and_outputs([first, second], [result])
    return builder.finish()


def _product(weights: "np.ndarray[Any, Any]") -> nd.Model:
    builder = nd.ModelBuilder()
    units, depth = weights.shape
    kind = nd.OperandType.TENSOR_FLOAT32
    x = builder.add_operand(kind, (1, depth))
    matrix = builder.add_operand(kind, weights.shape)
    builder.set_operand_value(matrix, weights)
    bias = builder.add_operand(kind, (units,))
    builder.set_operand_value(bias, np.zeros(units, np.float32))
    result = builder.add_operand(kind, (1, units))
    builder.add_operation(nd.OperationType.FULLY_CONNECTED, [x, matrix, bias, _activation(builder)], [result])
    builder.identify_inputs_and_outputs([x], [result])
    return builder.finish()


def _activation(builder: nd.ModelBuilder) -> int:
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    return none
