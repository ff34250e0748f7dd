"""Names operations and operands in messages by the numbers that the application gave them.

A graph holds its operations in execution order, and a device gets only a part of a model, so
positions in a graph mean nothing to the application. Operations, operands and graphs therefore keep
the application's numbers through sorting, slicing and transport; one without a number uses its
position.
"""

from collections.abc import Iterable, Sequence

from neurald.hal.model.graph import Operand, Subgraph

#: How many operations a message names at most.
_MAX_NAMED = 4


def first_few(texts: Sequence[str]) -> str:
    """Joins the first few sentences, with the number of further ones."""
    more = f"; and {len(texts) - _MAX_NAMED} more" if len(texts) > _MAX_NAMED else ""
    return f"{'; '.join(texts[:_MAX_NAMED])}{more}"


def operation_number(graph: Subgraph, position: int) -> int:
    """Returns the application's number of the operation at a position."""
    number = graph.operations[position].number
    return position if number is None else number


def positions_by_number(graph: Subgraph) -> dict[int, int]:
    """Returns the position of each operation by the application's number, ascending."""
    return dict(sorted((number, position) for position, number in enumerate(graph.operation_numbers)))


def operand_number(operands: Sequence[Operand], index: int) -> int:
    """Returns the application's number of the operand at an index of its graph."""
    number = operands[index].number
    return index if number is None else number


def operation_name(graph: Subgraph, position: int) -> str:
    """Formats `operation 3 ADD`, or `graph 2 operation 3 ADD` outside of the main graph."""
    return operations_name(graph, (position,))


def operations_name(graph: Subgraph, positions: Iterable[int]) -> str:
    """Formats `operation 3 ADD, 4 MUL`: each name once, only the first few of many."""
    found = (f"{operation_number(graph, each)} {graph.operations[each].type.name}" for each in positions)
    names = list(dict.fromkeys(found))
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    name = f"operation {', '.join(names[:_MAX_NAMED])}{more}"
    return f"graph {graph.number} {name}" if graph.number else name


def operand_name(operands: Sequence[Operand], index: int) -> str:
    """Formats `operand 5`."""
    return f"operand {operand_number(operands, index)}"
