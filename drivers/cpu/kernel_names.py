"""Names of the operations that a kernel implements, for messages."""

from collections.abc import Sequence

from neurald.drivers.compiler.frontend.control_flow.structured_model import StructuredModel
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.numbering import operations_name
from neurald.hal.records import replace


class KernelFailed(Exception):
    """Reports that no code could be generated for a kernel.

    Attributes:
        operations: positions of the operations that the kernel implements.
    """

    def __init__(self, message: str, operations: tuple[int, ...]) -> None:
        super().__init__(message)
        self.operations = operations


class GraphNames:
    """Names and positions of the operations of a graph.

    Args:
        graph: the graph.
        positions: the positions of its operations in the model that it is a part of; None if it is
            the whole model.
    """

    def __init__(self, graph: Subgraph, positions: Sequence[int] | None) -> None:
        self._graph = graph
        self._positions = positions

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        """See `Names.positions`."""
        if self._positions is None:
            return tuple(operations)
        return tuple(self._positions[each] for each in operations)

    def text(self, kernel: Kernel) -> str:
        """See `Names.text`."""
        return operations_name(self._graph, kernel.operations)

    def failed(self, kernel: Kernel, error: Exception) -> KernelFailed:
        """Returns the error for a kernel that cannot be compiled."""
        return _failed(self, kernel, error)


class StructuredNames:
    """Names and positions of the operations of a part of a structured model.

    Args:
        structured: the model.
        operations: the positions of the operations of that part.
    """

    def __init__(self, structured: StructuredModel, operations: Sequence[int]) -> None:
        self._structured = structured
        self._operations = operations

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        """See `Names.positions`."""
        # Several inlined operations may originate from one.
        origins = self._structured.origins
        return tuple(dict.fromkeys(origins[self._operations[each]] for each in operations))

    def text(self, kernel: Kernel) -> str:
        """See `Names.text`."""
        graphs: dict[int, list[int]] = {}
        for each in kernel.operations:
            position = self._operations[each]
            graphs.setdefault(self._structured.graphs[position], []).append(position)
        main = self._structured.model.main
        return ", ".join(
            operations_name(replace(main, number=number), positions) for number, positions in graphs.items()
        )

    def failed(self, kernel: Kernel, error: Exception) -> KernelFailed:
        """Returns the error for a kernel that cannot be compiled."""
        return _failed(self, kernel, error)


def _failed(names: GraphNames | StructuredNames, kernel: Kernel, error: Exception) -> KernelFailed:
    text = f"{names.text(kernel)}: {type(error).__name__}: {error}"
    return KernelFailed(text, names.positions(kernel.operations))
