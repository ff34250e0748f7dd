"""Tests of finished models."""

import copy
import pickle

import pytest
from support.models.small import add_model

from neurald.hal.model.model import Model, ModelContent, Outline
from neurald.hal.records import replace


def test_copies_of_a_model_are_the_model() -> None:
    model = add_model((2,))
    assert copy.copy(model) is model
    assert copy.deepcopy([model]) == [model]


def test_a_model_does_not_change_but_can_be_replaced() -> None:
    model = add_model((2,))
    with pytest.raises(AttributeError, match="'relaxed' cannot be set"):
        model.relaxed = True
    assert replace(model, relaxed=True).relaxed
    assert not model.relaxed


def test_a_pickled_model_has_equal_graphs() -> None:
    model = add_model((2,))
    assert pickle.loads(pickle.dumps(model)).main == model.main


def test_content_is_read_once_it_is_needed() -> None:
    complete = add_model((2,))
    reads: list[ModelContent] = []

    def read() -> ModelContent:
        reads.append(complete.content)
        return complete.content

    outline = Outline.of(complete.main)
    model = Model.read_later(
        outline, read, state=(), input_names=("a", "b"), output_names=("c",), signatures={}
    )
    assert (model.inputs, model.outputs) == (complete.inputs, complete.outputs)
    assert model.input_operands == complete.input_operands
    assert reads == []
    assert model.main is complete.main
    assert model.pools is complete.pools
    assert len(reads) == 1
