"""What operations exchange, and groups of them."""

import numpy as np
from support.models.graphs import model

import neurald as nd
from neurald.runtime.costs.graph_work import flat_operands
from neurald.runtime.partitioning.min_cost.value_graph import ValueGraph

ADD = nd.OperationType.ADD


def values_of(subject: nd.Model) -> ValueGraph:
    operations = subject.main.operations
    inputs = flat_operands([each.inputs for each in operations])
    return ValueGraph.of(subject.main, inputs, flat_operands([each.outputs for each in operations]))


def test_values_of_a_graph() -> None:
    # An operand that is read twice counts once, and constants are no values.
    subject = model("x", [(ADD, "x x one", "a b"), (ADD, "a b", "c"), (ADD, "a", "d")], "b d")
    found = values_of(subject)
    names = [operand.name for operand in subject.main.operands]
    read = [(int(n), names[value]) for n, value in zip(found.read_by, found.read, strict=True)]
    assert sorted(read) == [(0, "x"), (1, "a"), (1, "b"), (2, "a")]
    assert {names[n] for n in np.flatnonzero(found.is_output)} == {"b", "d"}
    assert found.writer[names.index("x")] == -1
    assert found.writer[names.index("b")] == 0
    assert found.bytes[names.index("a")] == 24
    assert found.followers == [[1, 1, 2], [], []] or found.followers == [[1, 2, 1], [], []]
    assert found.missing == [0, 2, 1]


def test_groups_exchange_what_their_operations_do() -> None:
    subject = model("x", [(ADD, "x", "a"), (ADD, "x", "b"), (ADD, "a b", "c"), (ADD, "a", "d")], "c d")
    found = values_of(subject).contracted(np.array([0, 0, 1, 1]), 2)
    assert found.count == 2
    assert found.followers == [[1, 1], []]
    assert found.missing == [0, 2]
    # Both operations of the first group read the input, which is moved once.
    assert (found.read_by == 0).sum() == 1


def test_a_graph_without_operations() -> None:
    found = values_of(model("x", [], "x"))
    assert found.count == 0
    assert found.followers == []
    assert found.missing == []
