"""Rules by which an application controls the placement of operations: pin, forbid, prefer.

A rule names a device and selects operations. Positions refer to the main graph, in the order in
which the application added its operations. An operation type, or the name of an operand that
operations write, selects in every graph. A device that may not run some operation inside of control
flow may not run that control flow as a whole either.

Rules that cannot all be kept are errors: an operation must not be pinned to two devices, or to a
device that is forbidden or unable. A preference is ignored if the device cannot run the operation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from neurald.hal.api_arguments import instance, integer, integers, shown
from neurald.hal.errors import BadData
from neurald.hal.model.numbering import positions_by_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Model
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, referenced_graphs
from neurald.runtime.partitioning.placement import Candidate, OperationId, describe


class OverrideKind(Enum):
    """Effect of a rule."""

    #: The device must run the operations.
    PIN = "pin"
    #: The device must not run them.
    FORBID = "forbid"
    #: The device runs those that it can, regardless of scores.
    PREFER = "prefer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One rule, created by `pin`, `forbid` or `prefer`.

    Attributes:
        kind: its effect.
        device: name of the device.
        operations: positions in the main graph, in the application's order.
        operation_type: selects all operations of this type.
        output: selects the operations that write an operand of this name.

    Raises:
        BadData: it does not have exactly one of the three selectors, or a selector has the wrong
            type.
    """

    kind: OverrideKind
    device: str
    operations: tuple[int, ...] = ()
    operation_type: OperationType | None = None
    output: str = ""

    def __post_init__(self) -> None:
        instance(self.device, str, f"{self.kind.value}: the device")
        instance(self.output, str, f"{self.kind.value} {self.device}: the output")
        given = (bool(self.operations), self.operation_type is not None, bool(self.output))
        if sum(given) != 1:
            raise BadData(
                f"{self.kind.value} {self.device}: operations, an operation type or an output's name is expected, "
                f"one of the three; {sum(given)} are given"
            )
        for position in self.operations:
            if not isinstance(position, int):
                raise BadData(
                    f"{self.kind.value} {self.device}: {position!r} is not the position of an operation"
                )
        if self.operation_type is not None and not isinstance(self.operation_type, OperationType):
            raise BadData(f"{self.kind.value} {self.device}: {self.operation_type!r} is not an OperationType")

    def __str__(self) -> str:
        if self.operation_type is not None:
            what = self.operation_type.name
        elif self.output:
            what = f"the writer of {self.output!r}"
        else:
            what = f"operations {_ranges(self.operations)}"
        return _SENTENCES[self.kind].format(what=what, device=self.device)


_SENTENCES = {
    OverrideKind.PIN: "pin {what} to {device}",
    OverrideKind.FORBID: "forbid {what} on {device}",
    OverrideKind.PREFER: "prefer {device} for {what}",
}


def _ranges(positions: Iterable[int]) -> str:
    """Formats positions as ranges: `3-5, 9`."""
    runs: list[list[int]] = []
    for position in sorted(set(positions)):
        if runs and runs[-1][1] == position - 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def pin(
    device: str,
    operations: int | Iterable[int] = (),
    *,
    operation_type: OperationType | None = None,
    output: str = "",
) -> Override:
    """Requires the device to run the selected operations; see `Override`."""
    return _override(OverrideKind.PIN, device, operations, operation_type, output)


def forbid(
    device: str,
    operations: int | Iterable[int] = (),
    *,
    operation_type: OperationType | None = None,
    output: str = "",
) -> Override:
    """Forbids the device to run the selected operations; see `Override`."""
    return _override(OverrideKind.FORBID, device, operations, operation_type, output)


def prefer(
    device: str,
    operations: int | Iterable[int] = (),
    *,
    operation_type: OperationType | None = None,
    output: str = "",
) -> Override:
    """Prefers the device for the selected operations that it can run; see `Override`."""
    return _override(OverrideKind.PREFER, device, operations, operation_type, output)


def _override(
    kind: OverrideKind,
    device: str,
    operations: int | Iterable[int],
    operation_type: OperationType | None,
    output: str,
) -> Override:
    what = f"{kind.value} {shown(device)}: the operations"
    if not isinstance(operations, Iterable):
        operations = (integer(operations, what),)
    positions = integers(operations, what)
    return Override(
        kind=kind, device=device, operations=positions, operation_type=operation_type, output=output
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedOverrides:
    """Candidates after applying rules.

    Attributes:
        candidates: with operations excluded according to the rules.
        preferred: by operation, the candidate that runs it if it can, and the rule that says so;
            includes pins.
    """

    candidates: tuple[Candidate, ...]
    preferred: Mapping[OperationId, tuple[int, str]]


def apply_overrides(
    model: Model, candidates: Sequence[Candidate], overrides: Sequence[Override], *, interpret: bool = True
) -> AppliedOverrides:
    """Applies rules to candidates.

    Args:
        model: the model whose operations the rules select.
        candidates: of the partitioning.
        overrides: the rules, in any order.
        interpret: True if the plan may interpret control flow.

    Raises:
        BadData: a device or operation is unknown, or rules contradict each other; lists all
            problems.
    """
    if not overrides:
        return AppliedOverrides(candidates=tuple(candidates), preferred={})
    rules = _Rules(model, candidates, overrides)
    excluded = rules.excluded()
    _exclude_enclosing_control_flow(model, candidates, excluded, interpret=interpret)
    changed = tuple(replace(c, excluded=places) for c, places in zip(candidates, excluded, strict=True))
    rules.check_pins(changed, interpret=interpret)
    preferred = {place: (device, str(rule)) for place, (device, rule) in rules.preferred.items()}
    preferred |= {place: (device, str(rule)) for place, (device, rule) in rules.pinned.items()}
    return AppliedOverrides(candidates=changed, preferred=preferred)


class _Rules:
    """Rules by operation.

    Attributes:
        pinned, preferred: the device of an operation, and the rule.
    """

    def __init__(self, model: Model, candidates: Sequence[Candidate], overrides: Sequence[Override]) -> None:
        self._model = model
        self._names = [candidate.name for candidate in candidates]
        self._problems: list[str] = []
        self.pinned: dict[OperationId, tuple[int, Override]] = {}
        self.preferred: dict[OperationId, tuple[int, Override]] = {}
        self._forbidden: dict[OperationId, dict[int, Override]] = {}
        for rule in overrides:
            self._add(rule)
        for place, (device, rule) in self.pinned.items():
            if device in self._forbidden.get(place, {}):
                self._conflict(place, rule, self._forbidden[place][device])
        self._raise_problems()

    def excluded(self) -> list[dict[OperationId, str]]:
        """Returns for each candidate the operations that rules exclude, and why."""
        found: list[dict[OperationId, str]] = [{} for _ in self._names]
        for place, rules in self._forbidden.items():
            for device, rule in rules.items():
                found[device][place] = f"forbidden ({rule})"
        for place, (pinned, rule) in self.pinned.items():
            for device in range(len(self._names)):
                if device != pinned:
                    found[device].setdefault(place, f"pinned elsewhere ({rule})")
        return found

    def check_pins(self, candidates: Sequence[Candidate], *, interpret: bool) -> None:
        """Raises BadData if a device cannot run an operation that is pinned to it."""
        nesting = Nesting(self._model)
        for place, (device, rule) in self.pinned.items():
            candidate = candidates[device]
            operation = graph_of(self._model, place[0]).operations[place[1]]
            if interpret and candidate.is_cpu and nesting.is_interpretable(place[0], operation):
                continue
            reason = candidate.unsupported_reason(place)
            # Devices are only asked about the graphs of control flow that could be interpreted.
            if reason and (place[0] == MAIN or place[0] in candidate.verdicts):
                self._problems.append(f"{rule}: it cannot run {describe(self._model, place)}: {reason}")
        self._raise_problems()

    def _add(self, rule: Override) -> None:
        if rule.device not in self._names:
            self._problems.append(
                f"{rule}: there is no device {rule.device!r}; there are {', '.join(self._names)}"
            )
            return
        device = self._names.index(rule.device)
        for place in self._selected(rule):
            if rule.kind is OverrideKind.FORBID:
                self._forbidden.setdefault(place, {})[device] = rule
                continue
            chosen = self.pinned if rule.kind is OverrideKind.PIN else self.preferred
            known = chosen.setdefault(place, (device, rule))
            if known[0] != device:
                self._conflict(place, known[1], rule)

    def _selected(self, rule: Override) -> Iterator[OperationId]:
        main = self._model.main
        positions = positions_by_number(main)
        for number in rule.operations:
            if number in positions:
                yield MAIN, positions[number]
            else:
                self._problems.append(
                    f"{rule}: there is no operation {number}; the model has {len(main.operations)}"
                )
        if rule.operations:
            return
        found = False
        for number, graph in enumerate((main, *self._model.referenced)):
            for position, operation in enumerate(graph.operations):
                if operation.type is rule.operation_type or (
                    rule.output and any(graph.operands[i].name == rule.output for i in operation.outputs)
                ):
                    found = True
                    yield number, position
        if rule.output and not found:
            self._problems.append(f"{rule}: no operation writes an operand of that name")

    def _conflict(self, place: OperationId, first: Override, second: Override) -> None:
        self._problems.append(f"{describe(self._model, place)}: {first}, and {second}")

    def _raise_problems(self) -> None:
        if self._problems:
            raise BadData(f"overrides cannot be kept: {'; '.join(dict.fromkeys(self._problems))}")


def _exclude_enclosing_control_flow(
    model: Model,
    candidates: Sequence[Candidate],
    excluded: Sequence[dict[OperationId, str]],
    *,
    interpret: bool,
) -> None:
    """Excludes control flow from a device that may not run some operation inside of it."""
    nesting = Nesting(model)
    for candidate, places in zip(candidates, excluded, strict=True):
        for number in nesting.order:
            graph = graph_of(model, number)
            for position, operation in enumerate(graph.operations):
                place = (number, position)
                inner = set(referenced_graphs(graph, operation))
                obstacle = min((p for p in places if p[0] in inner), default=None) if inner else None
                if obstacle is None or place in places:
                    continue
                if interpret and candidate.is_cpu and nesting.is_interpretable(number, operation):
                    continue
                places[place] = f"it may not run {describe(model, obstacle)}: {places[obstacle]}"
