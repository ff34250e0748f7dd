"""Compares the outputs of a model with those of another device."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def differences(
    names: Sequence[str], found: Sequence[Array], expected: Sequence[Array]
) -> list[dict[str, Any]]:
    """Compares outputs one by one.

    Returns:
        For each output: its name; the largest absolute difference; the root of the mean square
        difference; the signal-to-noise ratio in dB, None if there is no difference or no signal;
        and the share of elements that differ. Values that are not finite in both are equal if they
        are the same, and infinitely different otherwise.
    """
    return [
        {"output": name, **_difference(one, other)}
        for name, one, other in zip(names, found, expected, strict=True)
    ]


def _difference(found: Array, expected: Array) -> dict[str, Any]:
    if found.shape != expected.shape:
        return {
            "max_abs": math.inf,
            "rms": math.inf,
            "snr_db": None,
            "differing": 1.0,
            "reason": f"shape {list(found.shape)} instead of {list(expected.shape)}",
        }
    if found.dtype.kind in "OSUb":
        differing = float(np.mean(found != expected)) if found.size else 0.0
        return {
            "max_abs": float(differing > 0),
            "rms": math.sqrt(differing),
            "snr_db": None,
            "differing": differing,
        }
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    one, other = found.astype(wide).ravel(), expected.astype(wide).ravel()
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(all="ignore"):
        distance = np.where(same, 0.0, np.abs(one - other))
    distance[np.isnan(distance)] = math.inf
    noise = float(np.mean(distance**2)) if distance.size else 0.0
    finite = np.abs(other[np.isfinite(other)])
    signal = float(np.mean(finite**2)) if finite.size else 0.0
    ratio = 10 * math.log10(signal / noise) if signal and noise and math.isfinite(noise) else None
    return {
        "max_abs": float(distance.max(initial=0.0)),
        "rms": math.sqrt(noise),
        "snr_db": ratio,
        "differing": float(np.mean(~same)) if same.size else 0.0,
    }


def accuracy_rows(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Returns the rows of a table: output, largest difference, root mean square, SNR, differing."""
    return [
        (
            each["output"],
            f"{each['max_abs']:.4g}",
            f"{each['rms']:.4g}",
            "" if each["snr_db"] is None else f"{each['snr_db']:.1f} dB",
            f"{100 * each['differing']:.2f} %",
        )
        for each in found
    ]
