"""Tests of words of messages."""

import importlib

import pytest

from neurald.hal.wording import (
    MAX_DESCRIBED,
    counted,
    described,
    described_with_place,
    inputs_and_outputs,
    listed,
    milliseconds,
    output_clause,
    printable,
    sized,
    text_of,
    three_digits,
)


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(count, "input") for count in (0, 1, 2)] == ["0 inputs", "1 input", "2 inputs"]


def test_both_numbers_agree_with_their_nouns() -> None:
    assert inputs_and_outputs(1, 2) == "1 input and 2 outputs"


def test_lists_have_another_word_before_the_last_one() -> None:
    assert [listed(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert listed(["a", "b"], "or") == "a or b"


def test_numbers_are_shown_without_exponents() -> None:
    values = (0.01234, 1.0, 12.34, 999.4, 999.6, 1234.5, 2e6, -1500.0)
    shown = ["0.0123", "1", "12.3", "999", "1000", "1234", "2000000", "-1500"]
    assert [three_digits(each) for each in values] == shown
    assert [milliseconds(each) for each in (0.00123, 1.5)] == ["1.23 ms", "1500 ms"]


def test_sizes_have_the_largest_unit_that_leaves_a_whole_number() -> None:
    sizes = (0, 640, 999, 1000, 24_100, 999_499, 999_500, 4_030_000, 2_147_483_648, 5 * 10**12)
    shown = ["0 B", "640 B", "999 B", "1 KB", "24.1 KB", "999 KB", "1 MB", "4.03 MB", "2.15 GB", "5000 GB"]
    assert [sized(each) for each in sizes] == shown


def test_the_output_of_a_process_ends_a_sentence() -> None:
    assert output_clause(" first\n\n  second\n") == ", with the output: first second"
    assert output_clause("") == output_clause(" \n") == ""


def test_text_of_others_controls_no_terminal() -> None:
    forged = "a\x1b[31m\r\x9bred\u2028\u202e\nnext é"
    assert printable(forged) == "a [31m  red   next é"
    assert printable(forged, keeps_lines=True) == "a [31m  red  \nnext é"
    assert printable("plain") == "plain"


class Unspeakable(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("there is none")


def test_the_place_of_an_error_is_that_in_the_code_that_neurald_called() -> None:
    def fails() -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="mistake") as raised:
        fails()
    line = fails.__code__.co_firstlineno + 1
    assert described_with_place(raised.value) == f"ValueError: a mistake (test_wording.py, line {line})"
    assert described_with_place(ValueError("a mistake")) == "ValueError: a mistake"


def test_the_place_of_an_error_is_not_in_a_library_that_the_code_called() -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("no_such_module")
    assert "(test_wording.py, line " in described_with_place(raised.value)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("no_such_module")
    raised.value.__traceback__ = raised.value.__traceback__ and raised.value.__traceback__.tb_next
    assert described_with_place(raised.value) == "ModuleNotFoundError: No module named 'no_such_module'"


def test_errors_of_others_are_described_whatever_they_are() -> None:
    assert described(ValueError("a mistake")) == "ValueError: a mistake"
    assert described(Unspeakable()) == "Unspeakable: (its text cannot be made: RuntimeError)"
    assert described(ValueError("\x1b[2J\na")) == "ValueError:  [2J\na"
    text = text_of(ValueError("x" * 1_000_000))
    assert text == "x" * MAX_DESCRIBED + " …"
    assert len(described(type("x" * 1_000_000, (Exception,), {})("y" * 1_000_000))) < 3 * MAX_DESCRIBED
