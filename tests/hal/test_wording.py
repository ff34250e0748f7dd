"""Tests of words of messages."""

from neurald.hal.wording import counted


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(count, "input") for count in (0, 1, 2)] == ["0 inputs", "1 input", "2 inputs"]
