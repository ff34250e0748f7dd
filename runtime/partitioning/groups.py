"""What partitioning makes of a model: groups of operations in the order in which they run, control flow included.

A graph is numbered 0 for the main one and k + 1 for `Model.referenced[k]`; operations are positions in their graph.
"""

from dataclasses import dataclass
from typing import TypeAlias

MAIN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGroup:
    """Operations of one graph that one device runs as one model.

    Attributes:
        graph: number of the graph.
        device: index into the candidates that were partitioned for.
        operations: in the order in which they run, which keeps every operand written before it is read.
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
