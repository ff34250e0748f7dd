"""Defines the groups of operations that a partitioning consists of, in execution order.

Graphs are numbered as in `neurald.runtime.model.branches`. An operation is given by its position in
its graph.
"""

from typing import TypeAlias

from msgspec import Struct


class StepGroup(Struct, frozen=True, kw_only=True):
    """Operations of one graph that one device runs as one model.

    Attributes:
        graph: number of the graph.
        device: index into the candidates.
        operations: the operations in execution order: every operand is written before it is read.
    """

    graph: int
    device: int
    operations: tuple[int, ...]


class IfGroup(Struct, frozen=True, kw_only=True):
    """An IF that the runtime interprets."""

    graph: int
    operation: int
    then_groups: tuple["Group", ...]
    else_groups: tuple["Group", ...]


class WhileGroup(Struct, frozen=True, kw_only=True):
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
