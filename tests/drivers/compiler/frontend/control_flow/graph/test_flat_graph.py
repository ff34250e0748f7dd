"""Decisions of an attempt are undone with it, and earlier ones are not."""

import pytest
from support.models.control_flow import ADD, arithmetic

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph
from neurald.drivers.compiler.frontend.control_flow.structured_model import LengthUpdate
from neurald.drivers.compiler.ir.extents.scope import ExtentScope

pytestmark = pytest.mark.quick


def empty_graph(scope: ExtentScope) -> FlatGraph:
    return FlatGraph(arithmetic(ADD, 1), {}, None, scope)


def guards_of(flat: FlatGraph) -> list[str]:
    updates = [each for each in flat.regions[-1].items if isinstance(each, LengthUpdate)]
    return [guard.extent.key for update in updates for guard in update.guards]


@pytest.mark.parametrize("adds_guards", [False, True])
def test_decisions_of_an_attempt(*, adds_guards: bool) -> None:
    scope = ExtentScope((5, 7, 9))
    first, second, third = scope.symbols
    flat = empty_graph(scope)
    assert first < second
    known = list(scope.guards)
    with pytest.raises(KeyError), flat.attempt():  # noqa: PT012 - the attempt is undone by the exception
        assert second < third
        assert first > 3
        if adds_guards:
            flat.add_guards()
        raise KeyError
    assert list(scope.guards) == known
    assert scope.bounds(0)[0] < 3
    flat.add_guards()
    assert guards_of(flat) == [(first - second).key]
