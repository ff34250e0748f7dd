"""The importer's state shared by the graphs of a model, as graphs and rules see it."""

from typing import Protocol

from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite.file.schema import Operator, Tensor, TfliteSubgraph
from neurald.runtime.tflite.graph.state import CallArguments, Effects, VariableKey


class ImportContext(Protocol):
    """Constants, variables and subgraphs of the model.

    Implemented by `neurald.runtime.tflite.conversion.importer.Importer`.
    """

    @property
    def referenced(self) -> list[Subgraph]:
        """The graphs that have been called so far."""
        ...

    def custom_number(self, operator: Operator) -> int | None:
        """Returns the number of the function that computes a custom operator, or None."""
        ...

    def record_acceptance(self, *, is_accepted: bool) -> None:
        """Records whether a finished graph has the operands that definitions have accepted."""
        ...

    def constant(self, operand: Operand) -> Array | None:
        """Returns the value of a constant; None for any other operand."""
        ...

    def constant_operand(self, operand: Operand, value: Array) -> Operand:
        """Returns a constant with that value, otherwise like `operand`."""
        ...

    def unpacked(self, tensor: Tensor, operand: Operand) -> Operand:
        """Unpacks a packed constant into a separate pool; returns its operand.

        Raises:
            UnsupportedFeature: the result would be too large, or no operand can represent it.
            BadData: its bytes contradict its description in the file.
        """
        ...

    def variable_type(self, key: VariableKey) -> Operand:
        """Returns the operand that describes how a variable is stored.

        Raises:
            UnsupportedFeature: no operand can.
        """
        ...

    def constant_variable(self, key: VariableKey) -> Operand | None:
        """Returns the operand of a variable that keeps its initial value; None for any other."""
        ...

    def subgraph(self, index: int) -> TfliteSubgraph:
        """Returns a subgraph that an operator refers to, with composite operators expanded.

        Raises:
            BadData: it is damaged, or is part of its own decomposition.
        """
        ...

    def effects(self, index: int, handles: tuple[VariableKey | None, ...]) -> Effects:
        """Returns the effects on variables of running a subgraph with those handles as inputs.

        Raises:
            BadData: subgraphs call each other recursively or too deeply, or one is damaged.
        """
        ...

    def call(self, index: int, arguments: CallArguments) -> int:
        """Converts a subgraph for the given arguments.

        Returns the number of the referenced graph.

        Raises:
            UnsupportedFeature: it contains unsupported parts.
            BadData: it is damaged, or calls itself.
        """
        ...
