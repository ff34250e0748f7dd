"""Attempts are kept if they are valid for all lengths, and leave nothing behind otherwise."""

import pytest

from neurald.drivers.compiler.ir.extents.attempts import ExtentAttempts
from neurald.drivers.compiler.ir.extents.scope import ExtentScope


def test_what_is_valid_for_all_lengths_is_kept() -> None:
    scope, attempts = ExtentScope((5, 7)), ExtentAttempts[str]()
    first, _ = scope.symbols
    assert attempts.make(scope, "sum", lambda: first * 2 + 1) is first * 2 + 1
    assert attempts.make(scope, "bound", lambda: [first > 1]) == [True]
    assert attempts.make(scope, "nothing", lambda: None) is None
    assert not attempts.failed


def test_what_is_valid_for_some_lengths_is_undone() -> None:
    scope, attempts = ExtentScope((5, 7)), ExtentAttempts[str]()
    first, second = scope.symbols
    assert second * first != 3
    before, decided = scope.decisions(), scope.decided
    assert attempts.make(scope, "bound", lambda: [first > 3]) is None
    assert attempts.make(scope, "guard", lambda: [first < second]) is None
    assert attempts.make(scope, "pin", lambda: [int(first)]) is None
    with pytest.raises(ZeroDivisionError):
        attempts.make(scope, "error", lambda: [first > 3, 1 // 0])
    assert attempts.failed == {"bound", "guard", "pin", "error"}
    assert scope.decisions() == before
    assert not scope.pins
    assert scope.decided > decided


def test_a_failed_attempt_is_not_repeated_in_another_scope() -> None:
    attempts = ExtentAttempts[str]()
    (length,) = ExtentScope((5,)).symbols
    assert attempts.make(length.scope, "kernel", lambda: [length > 3]) is None
    assert attempts.make(ExtentScope((5,)), "kernel", lambda: [5]) is None
