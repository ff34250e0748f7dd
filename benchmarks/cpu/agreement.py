"""Decides whether the results of a runtime agree with those of LiteRT.

LiteRT has two sets of kernels, XNNPACK and its reference kernels, which differ from each other. A
result is right if it is as close to one of them as the limits say. Limits come from a manifest, or
from the precision of the model; the gap between the two sets widens the latter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from model_file import Port

Array = np.ndarray[Any, np.dtype[Any]]

#: The gap between LiteRT's own kernels times this is allowed.
_GAPS = 2.5
#: Allowed steps of quantised results, the largest and the mean.
_STEPS, _MEAN_STEPS = 3.0, 1.5
#: Allowed share of an output's range, the largest and the mean, by precision.
_SHARES = {"fp32": (1e-4, 1e-4), "integer": (0.0, 0.0)}
_QUANTIZED_SHARES = (2e-2, 5e-3)
_RELATIVE = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Largest differences that count as right.

    Attributes:
        atol, rtol: of each element.
        mean_atol: of the mean.
        share, mean_share: added to these, relative to the largest value of the output.
        compare: all, shape (nothing but the shape), first (the first element of each row of the
            first image), or labels (a share of equal elements).
        min_agree: this share.
        is_widened: whether the gap between LiteRT's kernels widens the limits.
    """

    atol: float = 0.0
    rtol: float = 0.0
    mean_atol: float = 0.0
    share: float = 0.0
    mean_share: float = 0.0
    compare: str = "all"
    min_agree: float = 1.0
    is_widened: bool = True

    @classmethod
    def of_manifest(cls, output: Mapping[str, Any]) -> "Limits":
        """Returns the limits that a manifest states for an output."""
        names = ("atol", "rtol", "mean_atol", "compare", "min_agree")
        return cls(is_widened=False, **{name: output[name] for name in names if name in output})

    @classmethod
    def of_output(cls, port: Port, precision: str) -> "Limits":
        """Returns the limits for an output of a model of a precision."""
        if port.is_quantized:
            return cls(atol=_STEPS, mean_atol=_MEAN_STEPS)
        share, mean_share = _SHARES.get(precision, _QUANTIZED_SHARES)
        if np.dtype(port.dtype or "V").kind not in "fc":
            share = mean_share = 0.0
        return cls(rtol=_RELATIVE if share else 0.0, share=share, mean_share=mean_share)


def disagreement(results: Path, truths: Sequence[Path], limits: Sequence[Limits]) -> str:
    """Returns what differs from all the truths; "" if nothing does.

    Args:
        results: outputs as NumPy's `savez` writes them.
        truths: those of LiteRT, of one or of both sets of kernels.
        limits: the limits of each output; of none if the file could not be read.
    """
    found, *wanted = (_arrays(path) for path in (results, *truths))
    if len(found) != len(wanted[0]):
        return f"it has {len(found)} outputs, LiteRT {len(wanted[0])}"
    for number, result in enumerate(found):
        right = [each[number] for each in wanted]
        limit = limits[number] if number < len(limits) else Limits(rtol=_RELATIVE, share=_SHARES["fp32"][0])
        if len(right) > 1 and limit.is_widened:
            limit = _widened(limit, right)
        reasons = [_difference(result, each, limit) for each in right]
        if all(reasons):
            return f"output {number}: {reasons[0]}"
    return ""


def _arrays(path: Path) -> list[Array]:
    with np.load(path) as archive:
        return [archive[name] for name in archive.files]


def _widened(limit: Limits, right: Sequence[Array]) -> Limits:
    """Returns limits that allow a multiple of the gap between two results."""
    if right[0].shape != right[1].shape or right[0].dtype.kind in "SU":
        return limit
    gap = _gap(right[0], right[1])
    largest, mean = (float(gap.max()), float(gap.mean())) if gap.size else (0.0, 0.0)
    return replace(
        limit,
        atol=max(limit.atol, _GAPS * largest),
        mean_atol=max(limit.mean_atol, 2 * mean),
    )


def _difference(result: Array, right: Array, limit: Limits) -> str:
    if result.shape != right.shape:
        return f"it has the shape {list(result.shape)}, LiteRT's {list(right.shape)}"
    if limit.compare == "shape" or not right.size:
        return ""
    if right.dtype.kind in "SUb":
        wrong = int((result != right).sum())
        return f"{wrong} of {right.size} elements are not LiteRT's" if wrong else ""
    if limit.compare == "labels":
        share = float((result == right).mean())
        return "" if share >= limit.min_agree else f"only {share:.3%} of its labels are LiteRT's"
    if limit.compare == "first":
        result, right = result[0, :1], right[0, :1]
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(result)):
        return "it is not finite where LiteRT's is, or the other way round"
    gap, sizes = _gap(result, right), np.abs(np.where(finite, right, 0))
    largest = float(sizes.max())
    bound = limit.atol + limit.share * largest + limit.rtol * sizes
    mean_bound = limit.mean_atol + limit.mean_share * largest
    if (gap <= bound).all() and gap.mean() <= mean_bound:
        return ""
    return (
        f"{float((gap > bound).mean()):.2%} of its elements are too far from LiteRT's; largest difference "
        f"{float(gap.max()):.3g}, mean {float(gap.mean()):.3g}, largest value {largest:.3g}"
    )


def _gap(first: Array, second: Array) -> Array:
    kind = np.complex128 if first.dtype.kind == "c" else np.float64
    a, b = first.astype(kind), second.astype(kind)
    both = np.isfinite(a) & np.isfinite(b)
    gap: Array = np.abs(np.where(both, a, 0) - np.where(both, b, 0))
    return gap
