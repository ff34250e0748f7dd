"""Which device runs which operation: pure functions over immutable data, by Android's rules."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.device import Capabilities, Verdict
from neurald.hal.errors import BadData
from neurald.hal.types import Model, OperandType, Operation, Preference


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What the placement needs to know of a device: its name, its verdicts (one an operation) and capabilities."""

    name: str
    verdicts: Sequence[Verdict]
    capabilities: Capabilities
    is_cpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The device of one operation, as an index into the candidates, and why it is that one."""

    device: int
    reason: str


def find_best_device_for_each_operation(
    model: Model, candidates: Sequence[Candidate], preference: Preference
) -> tuple[Placement, ...]:
    """Places every operation of the main graph, each judged alone.

    The smallest score among the devices that can run the operation wins; a tie goes to the CPU device, otherwise to the
    device that comes first (AOSP `ModelBuilder::findBestDeviceForEachOperation`).

    Raises:
        BadData: no device can run an operation; names it, the devices and their reasons.
    """
    return tuple(
        _best(model, operation, position, candidates, preference)
        for position, operation in enumerate(model.main.operations)
    )


def _best(
    model: Model,
    operation: Operation,
    position: int,
    candidates: Sequence[Candidate],
    preference: Preference,
) -> Placement:
    able = [n for n, candidate in enumerate(candidates) if candidate.verdicts[position].ok]
    if not able:
        reasons = "; ".join(f"{c.name}: {c.verdicts[position].reason}" for c in candidates)
        raise BadData(f"no device can run operation {position} {operation.type.name} ({reasons})")
    scores = {n: score(model, operation, candidates[n].capabilities, preference) for n in able}
    best = min(able, key=lambda n: (scores[n], not candidates[n].is_cpu, n))
    return Placement(device=best, reason=_reason(best, scores, candidates))


def _reason(best: int, scores: dict[int, float], candidates: Sequence[Candidate]) -> str:
    others = [f"{candidates[n].name} {scores[n]:g}" for n in scores if n != best]
    others += [f"{c.name}: {c.verdicts[0].reason}" for c in candidates if not any(v.ok for v in c.verdicts)]
    return f"score {scores[best]:g}" + (f" against {', '.join(others)}" if others else ", the only device")


def score(model: Model, operation: Operation, capabilities: Capabilities, preference: Preference) -> float:
    """Time of a device relative to the CPU's, or power for LOW_POWER; smaller is better.

    Looked up by the type of the operation's first input; a type that the device did not list is infinitely slow.
    """
    kind = model.main.operands[operation.inputs[0]].type
    if model.relaxed and kind is OperandType.FLOAT32:
        performance = capabilities.relaxed_float32_scalar
    elif model.relaxed and kind is OperandType.TENSOR_FLOAT32:
        performance = capabilities.relaxed_float32_tensor
    elif kind in capabilities.operand_performance:
        performance = capabilities.operand_performance[kind]
    else:
        return math.inf
    low_power = preference is Preference.LOW_POWER
    return performance.power_usage if low_power else performance.exec_time
