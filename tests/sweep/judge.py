"""Judges a form by the outcomes of LiteRT and neurald."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sweep.form import Array

#: Verdicts, the most important ones first.
VERDICTS = ("broken", "differs", "refused", "uncompiled", "agrees", "more", "declined")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a form in a runtime: its outputs, or an error."""

    outputs: tuple[Array, ...] | None = None
    error: str = ""
    is_broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One of `VERDICTS`, with a reason."""

    verdict: str
    why: str = ""


def judge(
    litert: Mapping[str, Outcome], reference: Outcome, compiled: Outcome | None, tolerance: float
) -> Verdict:
    """Returns the verdict on a form.

    Args:
        litert: the outcomes by the name of LiteRT's kernels.
        reference, compiled: outcomes of neurald's devices; None if it was not compiled.
        tolerance: of floats, relative to the largest number.
    """
    for name, outcome in (("reference", reference), ("compiled", compiled)):
        if outcome is not None and outcome.is_broken:
            return Verdict(verdict="broken", why=f"{name}: {outcome.error}")
    accepted = [outcome.outputs for outcome in litert.values() if outcome.outputs is not None]
    if not accepted:
        why = next(iter(litert.values())).error if litert else ""
        return Verdict(verdict="declined" if reference.outputs is None else "more", why=why)
    if reference.outputs is None:
        return Verdict(verdict="refused", why=reference.error)
    why = difference(reference.outputs, accepted, tolerance)
    if why:
        return Verdict(verdict="differs", why=f"reference: {why}")
    if compiled is not None:
        if compiled.outputs is None:
            return Verdict(verdict="uncompiled", why=compiled.error)
        why = difference(compiled.outputs, accepted, tolerance)
        if why:
            return Verdict(verdict="differs", why=f"compiled: {why}")
        why = difference(compiled.outputs, [reference.outputs], tolerance)
        if why:
            return Verdict(verdict="differs", why=f"compiled, from the reference: {why}")
    return Verdict(verdict="agrees")


def difference(outputs: Sequence[Array], accepted: Sequence[Sequence[Array]], tolerance: float) -> str:
    """Describes how outputs differ from all correct ones; empty if they agree with one.

    Integers must equal those of one kernel; if kernels differ from each other, they must be within
    1 of one of them.
    """
    for position, found in enumerate(outputs):
        rights = [right[position] for right in accepted]
        why = _difference(found, rights, tolerance)
        if why:
            return f"output {position}: {why}"
    return ""


def _difference(found: Array, rights: Sequence[Array], tolerance: float) -> str:
    fitting = [right for right in rights if right.shape == found.shape]
    if not fitting:
        return f"shape {found.shape}, not {rights[0].shape}"
    if found.dtype.kind in "OSU":
        is_equal = any(found.astype(bytes).tolist() == right.astype(bytes).tolist() for right in fitting)
        return "" if is_equal else f"{found.tolist()!r:.60}, not {fitting[0].tolist()!r:.60}"
    if found.dtype.kind in "fc":
        errors = [_float_error(found, right, tolerance) for right in fitting]
        return "" if "" in errors else errors[0]
    if any(np.array_equal(found, right) for right in fitting):
        return ""
    do_differ = any(not np.array_equal(fitting[0], right) for right in fitting[1:])
    if found.dtype.kind in "iu" and do_differ:
        distances = [_distance(found, right) for right in fitting]
        if np.all(np.minimum.reduce(distances) <= 1):
            return ""
    wrong = found != fitting[0]
    place = tuple(int(n) for n in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {found.size}; at {place} {found[place]}, not {fitting[0][place]}"


def _distance(a: Array, b: Array) -> Array:
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


def _float_error(found: Array, right: Array, tolerance: float) -> str:
    with np.errstate(all="ignore"):
        finite = np.abs(right[np.isfinite(right)])
        if right.dtype == np.float16:
            tolerance = max(tolerance, 2e-3)
        limit: Any = tolerance * (float(finite.max()) if finite.size else 1.0) + 1e-30
        # Vectorised kernels round differently near the limits of the type.
        is_close = (found == right) | (np.abs(found - right) <= limit) | (np.isnan(found) & np.isnan(right))
    if is_close.all():
        return ""
    place = tuple(int(n) for n in np.argwhere(~is_close)[0])
    return f"{int((~is_close).sum())} of {found.size}; at {place} {found[place]}, not {right[place]}"
