"""Bindings of operations, which are kept as long as their graph."""

import gc

import numpy as np
import pytest
from support.models.addition import addition

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Subgraph
from neurald.hal.validation import shape_inference
from neurald.hal.validation.shape_inference import LazyBindings, bind_operations, forget_bindings


def graph() -> Subgraph:
    return addition(np.ones(3, np.float32)).main


def test_a_graph_is_bound_once_while_it_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = graph(), graph()
    bindings = bind_operations(first)
    assert len(bindings) == len(first.operations)
    assert bind_operations(other) == bindings
    assert bind_operations(other) is not bindings
    with monkeypatch.context() as patch:
        patch.setattr(shape_inference, "_bound", pytest.fail)
        assert bind_operations(first) is bindings
    number = id(first)
    assert number in shape_inference._bindings
    del first
    gc.collect()
    assert number not in shape_inference._bindings


def test_bindings_are_made_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = graph()
    lazy = LazyBindings(whole)
    assert lazy[0] == bind_operations(whole)[0]
    with monkeypatch.context() as patch:
        patch.setattr(shape_inference, "_binding", pytest.fail)
        LazyBindings(whole)
        assert lazy[0] is lazy[0]
        with pytest.raises(IndexError):
            lazy[len(whole.operations)]


def test_what_cannot_be_bound_is_refused_every_time() -> None:
    whole = graph()
    (operation,) = whole.operations
    wrong = Subgraph(
        operands=whole.operands,
        operations=(type(operation)(type=operation.type, inputs=(), outputs=operation.outputs),),
        inputs=whole.inputs,
        outputs=whole.outputs,
    )
    for _ in range(2):
        with pytest.raises(BadData, match="0 inputs"):
            bind_operations(wrong)
        with pytest.raises(BadData, match=r"operation 0 ADD: .*0 inputs"):
            LazyBindings(wrong)[0]


def test_what_is_kept_of_a_model_can_be_forgotten() -> None:
    model = addition(np.ones(4, np.float32))
    first = bind_operations(model.main)
    assert bind_operations(model.main) is first
    forget_bindings(model)
    again = bind_operations(model.main)
    assert again is not first
    assert again == first


def test_what_is_kept_of_a_graph_is_not_used_for_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt in what drops an entry keeps it, and another object gets the same number."""
    first, later = graph(), graph()
    kept = bind_operations(first)
    monkeypatch.setitem(shape_inference._bindings, id(later), shape_inference._bindings[id(first)])
    del first
    found = bind_operations(later)
    assert found is not kept
    assert bind_operations(later) is found
