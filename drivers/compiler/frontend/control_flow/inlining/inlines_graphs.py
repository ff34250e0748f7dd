"""The interface through which loops and branches inline the graphs that they run."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from neurald.drivers.compiler.frontend.control_flow.inlining.loop_counters import LoopCounter


class InlinesGraphs(Protocol):
    """Inlines graphs of a model into its flat graph, with operands of their own."""

    def inline(self, graph: int, inputs: Sequence[int], origin: int) -> Sequence[int]:
        """Inlines a graph.

        Args:
            graph: the number of the graph.
            inputs: the operands that are its inputs.
            origin: the position of the operation in the original main graph that runs it.

        Returns:
            The operands that are its outputs.
        """

    def inline_counter(
        self, graph: int, inputs: Sequence[int], counter: LoopCounter, origin: int
    ) -> Mapping[int, int]:
        """Inlines only those operations of the body of a loop that count its turns.

        Args:
            graph, inputs, origin: see `inline`.
            counter: says which operations these are.

        Returns:
            The new index of each operand of the graph that they need.
        """
