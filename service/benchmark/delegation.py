"""States how much of a model runs on the devices other than the CPU."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from neurald.hal.errors import BadData


def delegation(steps: Sequence[Mapping[str, Any]], cpu: str = "cpu") -> dict[str, Any]:
    """Describes where operations run.

    Args:
        steps: from `describe_steps`.
        cpu: the name of the CPU device.

    Returns:
        `kind`: `none` if all operations run on the CPU device, `full` if none does, else `partial`;
        `operations` by device, and the number of `steps`.
    """
    counts: Counter[str] = Counter()
    for step in steps:
        ran = cpu if step["executions_on_cpu_instead"] else step["device"]
        counts[ran] += step["operations"]
    elsewhere = sum(count for device, count in counts.items() if device != cpu)
    kind = "none" if not elsewhere else "partial" if counts[cpu] else "full"
    return {"kind": kind, "operations": dict(counts), "steps": len(steps)}


def delegation_sentence(found: Mapping[str, Any]) -> str:
    """Returns the description as one sentence."""
    parts = ", ".join(
        f"{count} operation{'s' if count != 1 else ''} on {device}"
        for device, count in found["operations"].items()
    )
    steps = f"{found['steps']} step{'s' if found['steps'] != 1 else ''}"
    if found["kind"] == "none":
        return f"no delegation: {parts or 'no operations'}, in {steps}"
    return f"{found['kind']} delegation: {parts}, in {steps}"


def require_full_delegation(found: Mapping[str, Any]) -> None:
    """Raises BadData unless all operations run on devices other than the CPU."""
    if found["kind"] != "full":
        raise BadData(f"full delegation is required; found {delegation_sentence(found)}")
