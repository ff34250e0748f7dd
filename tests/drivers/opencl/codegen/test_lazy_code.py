"""Tests of code that is generated when it is read."""

import pytest

from neurald.drivers.opencl.codegen.lazy_code import Code, LazyCode


def test_code_is_made_once_when_it_is_read() -> None:
    made: list[str] = []

    def make() -> Code:
        made.append("code")
        return Code("text", (1, -2))

    lazy = LazyCode(make)
    assert not made
    assert [lazy.text, lazy.numbers, lazy.text] == ["text", (1, -2), "text"]
    assert made == ["code"]


def test_an_error_is_raised_by_each_reading() -> None:
    errors = iter((ValueError("first"), ValueError("second")))

    def make() -> Code:
        raise next(errors)

    lazy = LazyCode(make)
    for words in ("first", "second"):
        with pytest.raises(ValueError, match=words):
            lazy.text  # noqa: B018 - reading it raises


def test_codes_of_equal_content_are_equal() -> None:
    assert LazyCode(lambda: Code("a")) == LazyCode.of("a")
    assert hash(LazyCode(lambda: Code("a", (1,)))) == hash(LazyCode.of("a", (1,)))
    assert LazyCode.of("a") != LazyCode.of("b")
    assert LazyCode.of("a") != LazyCode.of("a", (1,))
    assert LazyCode.of("a") != "a"
