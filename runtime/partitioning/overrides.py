"""Applies the rules by which an application controls placement: pin, forbid and prefer.

A rule names a device and selects operations. A position selects an operation of the main graph, in
the order in which the application added them. An operation type, or the name of an operand, selects
operations of every graph: those of that type, or those that write that operand. A device that may
not run some operation inside of control flow may not run that control flow as a whole either.

Contradictory rules are errors: an operation must not be pinned to two devices, or to a device that
is forbidden for it or cannot run it. A preference is ignored if the device cannot run the
operation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from neurald.hal.api_arguments import instance, integer, integers, shown
from neurald.hal.errors import BadData, WrongType
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import positions_by_number
from neurald.hal.model.operation_type import OperationType
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, referenced_graphs
from neurald.runtime.partitioning.placement import Candidate, OperationId, describe


class OverrideKind(Enum):
    """The effect of a rule."""

    #: The device must run the operations.
    PIN = "pin"
    #: The device must not run the operations.
    FORBID = "forbid"
    #: The device runs the operations that it can run, regardless of scores.
    PREFER = "prefer"


class Override(Struct, frozen=True, kw_only=True):
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
                f"{self.kind.value} {self.device}: exactly one of operations, operation_type and output is "
                f"expected; {sum(given)} are given"
            )
        for position in self.operations:
            if not isinstance(position, int):
                raise WrongType(
                    f"{self.kind.value} {self.device}: {shown(position)} is not the position of an operation"
                )
        if self.operation_type is not None and not isinstance(self.operation_type, OperationType):
            raise WrongType(
                f"{self.kind.value} {self.device}: {shown(self.operation_type)} is not an OperationType"
            )

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
    """Requires the device to run the selected operations; see `Override`.

    Args:
        device: its name.
        operations: positions of operations, or one position.
        operation_type: selects all operations of a type.
        output: selects the operation that writes the output of this name.
    """
    return _override(OverrideKind.PIN, device, operations, operation_type, output)


def forbid(
    device: str,
    operations: int | Iterable[int] = (),
    *,
    operation_type: OperationType | None = None,
    output: str = "",
) -> Override:
    """Forbids the device to run the selected operations; see `Override`.

    Args:
        device: its name.
        operations: positions of operations, or one position.
        operation_type: selects all operations of a type.
        output: selects the operation that writes the output of this name.
    """
    return _override(OverrideKind.FORBID, device, operations, operation_type, output)


def prefer(
    device: str,
    operations: int | Iterable[int] = (),
    *,
    operation_type: OperationType | None = None,
    output: str = "",
) -> Override:
    """Prefers the device for the selected operations that it can run; see `Override`.

    Args:
        device: its name.
        operations: positions of operations, or one position.
        operation_type: selects all operations of a type.
        output: selects the operation that writes the output of this name.
    """
    return _override(OverrideKind.PREFER, device, operations, operation_type, output)


def _override(
    kind: OverrideKind,
    device: str,
    operations: int | Iterable[int],
    operation_type: OperationType | None,
    output: str,
) -> Override:
    what = f"{kind.value} {shown(device)}: the choice of operations"
    if not isinstance(operations, Iterable):
        operations = (integer(operations, what),)
    positions = integers(operations, what)
    return Override(
        kind=kind, device=device, operations=positions, operation_type=operation_type, output=output
    )


class AppliedOverrides(Struct, frozen=True, kw_only=True):
    """The effect of rules on candidates.

    Attributes:
        candidates: the candidates with the operations excluded that the rules forbid.
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
        candidates: the candidates of the partitioning.
        overrides: the rules, in any order.
        interpret: True if the plan may interpret control flow.

    Raises:
        BadData: a device or operation is unknown, or rules contradict each other. The message lists
            all problems.
    """
    if not overrides:
        return AppliedOverrides(candidates=tuple(candidates), preferred={})
    rules = _Rules(model, candidates, overrides)
    excluded = rules.excluded()
    _exclude_enclosing_control_flow(model, candidates, excluded, interpret=interpret)
    changed = tuple(
        replace(c, excluded=exclusions) for c, exclusions in zip(candidates, excluded, strict=True)
    )
    rules.check_pins(changed, interpret=interpret)
    preferred = {
        operation_id: (device, str(rule)) for operation_id, (device, rule) in rules.preferred.items()
    }
    preferred |= {operation_id: (device, str(rule)) for operation_id, (device, rule) in rules.pinned.items()}
    return AppliedOverrides(candidates=changed, preferred=preferred)


class _Rules:
    """The rules that apply to each operation.

    Attributes:
        pinned, preferred: by operation, the candidate and the rule that names it.
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
        for operation_id, (device, rule) in self.pinned.items():
            if device in self._forbidden.get(operation_id, {}):
                self._conflict(operation_id, rule, self._forbidden[operation_id][device])
        self._raise_problems()

    def excluded(self) -> list[dict[OperationId, str]]:
        """Returns for each candidate the operations that rules exclude, and why."""
        found: list[dict[OperationId, str]] = [{} for _ in self._names]
        for operation_id, rules in self._forbidden.items():
            for device, rule in rules.items():
                found[device][operation_id] = f"forbidden ({rule})"
        for operation_id, (pinned, rule) in self.pinned.items():
            for device in range(len(self._names)):
                if device != pinned:
                    found[device].setdefault(operation_id, f"pinned to another device ({rule})")
        return found

    def check_pins(self, candidates: Sequence[Candidate], *, interpret: bool) -> None:
        """Raises BadData if a device cannot run an operation that is pinned to it."""
        nesting = Nesting(self._model)
        for operation_id, (device, rule) in self.pinned.items():
            candidate = candidates[device]
            operation = graph_of(self._model, operation_id[0]).operations[operation_id[1]]
            if interpret and candidate.is_cpu and nesting.is_interpretable(operation_id[0], operation):
                continue
            reason = candidate.unsupported_reason(operation_id)
            # Devices are only asked about the graphs of control flow that could be interpreted.
            if reason and (operation_id[0] == MAIN or operation_id[0] in candidate.verdicts):
                self._problems.append(
                    f"{rule}: it cannot run {describe(self._model, operation_id)}: {reason}"
                )
        self._raise_problems()

    def _add(self, rule: Override) -> None:
        if rule.device not in self._names:
            self._problems.append(
                f"{rule}: there is no device {rule.device!r}; the devices are {', '.join(self._names)}"
            )
            return
        device = self._names.index(rule.device)
        for operation_id in self._selected(rule):
            if rule.kind is OverrideKind.FORBID:
                self._forbidden.setdefault(operation_id, {})[device] = rule
                continue
            chosen = self.pinned if rule.kind is OverrideKind.PIN else self.preferred
            known = chosen.setdefault(operation_id, (device, rule))
            if known[0] != device:
                self._conflict(operation_id, known[1], rule)

    def _selected(self, rule: Override) -> Iterator[OperationId]:
        main = self._model.main
        positions = positions_by_number(main)
        for number in rule.operations:
            if number in positions:
                yield MAIN, positions[number]
        if missing := [number for number in rule.operations if number not in positions]:
            self._problems.append(
                f"{rule}: there is no operation {_ranges(missing)}; the model has {len(main.operations)} "
                "operations"
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

    def _conflict(self, operation_id: OperationId, first: Override, second: Override) -> None:
        self._problems.append(f"{describe(self._model, operation_id)}: {first} contradicts {second}")

    def _raise_problems(self) -> None:
        if self._problems:
            raise BadData(f"overrides cannot be applied: {'; '.join(dict.fromkeys(self._problems))}")


def _exclude_enclosing_control_flow(
    model: Model,
    candidates: Sequence[Candidate],
    excluded: Sequence[dict[OperationId, str]],
    *,
    interpret: bool,
) -> None:
    """Excludes control flow from a device that may not run some operation inside of it."""
    nesting = Nesting(model)
    for candidate, exclusions in zip(candidates, excluded, strict=True):
        for number in nesting.order:
            graph = graph_of(model, number)
            for position, operation in enumerate(graph.operations):
                operation_id = (number, position)
                inner = set(referenced_graphs(graph, operation))
                excluded_inside = (
                    min((p for p in exclusions if p[0] in inner), default=None) if inner else None
                )
                if excluded_inside is None or operation_id in exclusions:
                    continue
                if interpret and candidate.is_cpu and nesting.is_interpretable(number, operation):
                    continue
                exclusions[operation_id] = (
                    f"it may not run {describe(model, excluded_inside)}: {exclusions[excluded_inside]}"
                )
