"""What the graphs of one model share while they are brought over, as graphs and rules see it."""

from typing import Protocol

from neurald.hal.model.types import Operand, Subgraph
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite.schema import Tensor, TfliteSubgraph
from neurald.runtime.tflite.state import Arguments, Effects, Key


class ImportContext(Protocol):
    """Constants, variables and subgraphs of the model; `neurald.runtime.tflite.subgraphs.Importer` has them."""

    @property
    def referenced(self) -> list[Subgraph]:
        """The graphs that are called, so far."""
        ...

    def constant(self, operand: Operand) -> Array | None:
        """The value of a constant; None for any other operand."""
        ...

    def stored(self, operand: Operand, value: Array) -> Operand:
        """A constant of that value, like `operand` in all else."""
        ...

    def unpacked(self, tensor: Tensor, operand: Operand) -> Operand:
        """The operand of a packed constant, in a pool of its own.

        Raises:
            Unsupported: it would become too large, or nothing can stand for it.
            BadData: its bytes do not fit what the file says of it.
        """
        ...

    def variable_type(self, key: Key) -> Operand:
        """How a variable is stored: an operand that stands for it.

        Raises:
            Unsupported: none can.
        """
        ...

    def constant_variable(self, key: Key) -> Operand | None:
        """The operand of a variable that keeps its initial value; None for any other."""
        ...

    def subgraph(self, index: int) -> TfliteSubgraph:
        """A subgraph that an operator refers to, without composite operators.

        Raises:
            BadData: it is damaged, or is part of its own decomposition.
        """
        ...

    def effects(self, index: int, handles: tuple[Key | None, ...]) -> Effects:
        """What running a subgraph does to variables, if its inputs are those handles.

        Raises:
            BadData: subgraphs call each other in a circle or too deep, or one is damaged.
        """
        ...

    def call(self, index: int, arguments: Arguments) -> int:
        """The referenced graph that stands for a subgraph called with such arguments.

        Raises:
            Unsupported: it has parts that are not supported.
            BadData: it is damaged, or calls itself.
        """
        ...
