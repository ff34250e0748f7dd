"""The result of partitioning: groups of operations in execution order, including control flow.

Graph number 0 is the main graph, k + 1 is `Model.referenced[k]`; operations are positions in their
graph.
"""

from dataclasses import dataclass
from typing import TypeAlias

MAIN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """Operations of one graph that one device runs as one model.

    Attributes:
        graph: number of the graph.
        device: index into the candidates.
        operations: in execution order, which writes every operand before it is read.
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
