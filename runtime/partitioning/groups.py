"""Defines the groups of operations that a partitioning consists of, in execution order.

Graphs are numbered as in `neurald.runtime.model.branches`. An operation is given by its position in
its graph.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """Operations of one graph that one device runs as one model.

    Attributes:
        graph: number of the graph.
        device: index into the candidates.
        operations: in execution order: every operand is written before it is read.
    """

    graph: int
    device: int
    operations: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IfGroup:
    """An IF that the runtime interprets."""

    graph: int
    operation: int
    then_groups: tuple["Group", ...]
    else_groups: tuple["Group", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileGroup:
    """A WHILE that the runtime interprets."""

    graph: int
    operation: int
    condition_groups: tuple["Group", ...]
    body_groups: tuple["Group", ...]


Group: TypeAlias = StepGroup | IfGroup | WhileGroup


def branch_groups(group: IfGroup | WhileGroup) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Returns the groups of an operation's two branches, in the order of `referenced_graphs`."""
    if isinstance(group, IfGroup):
        return group.then_groups, group.else_groups
    return group.condition_groups, group.body_groups
