"""Tests of texts that are generated when they are read."""

import pytest

from neurald.drivers.opencl.codegen.lazy_text import LazyText


def test_a_text_is_made_once_when_it_is_read() -> None:
    made: list[str] = []

    def make() -> str:
        made.append("text")
        return "text"

    lazy = LazyText(make)
    assert not made
    assert [lazy.text, lazy.text] == ["text", "text"]
    assert made == ["text"]


def test_an_error_is_raised_by_each_reading() -> None:
    errors = iter((ValueError("first"), ValueError("second")))

    def make() -> str:
        raise next(errors)

    lazy = LazyText(make)
    for words in ("first", "second"):
        with pytest.raises(ValueError, match=words):
            lazy.text  # noqa: B018 - reading it raises


def test_texts_of_equal_content_are_equal() -> None:
    assert LazyText(lambda: "a") == LazyText.of("a")
    assert hash(LazyText(lambda: "a")) == hash(LazyText.of("a"))
    assert LazyText.of("a") != LazyText.of("b")
    assert LazyText.of("a") != "a"
