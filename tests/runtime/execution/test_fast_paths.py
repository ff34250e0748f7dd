"""Fast paths of executions, which are dropped all at once, also those that are being made."""

import gc
import weakref

import pytest

from neurald.runtime.execution.fast_paths import forget_fast_paths, is_valid, making_fast_path

pytestmark = pytest.mark.quick


class Execution:
    """Counts how often its fast paths are dropped, and makes them again if it is to."""

    def __init__(self, *, makes_again: bool = False) -> None:
        self.forgotten = 0
        self.makes_again = makes_again

    def forget_fast_paths(self) -> None:
        self.forgotten += 1
        if self.makes_again:
            making_fast_path(Execution())
            assert is_valid(making_fast_path(self))


def test_all_executions_forget() -> None:
    executions = [Execution(makes_again=number == 1) for number in range(3)]
    for execution in executions:
        assert is_valid(making_fast_path(execution))
    making_fast_path(executions[0])
    for count in (1, 2):
        forget_fast_paths()
        assert [each.forgotten for each in executions] == [count] * 3


def test_a_path_that_is_being_made_is_not_used() -> None:
    first, second = Execution(), Execution()
    state = making_fast_path(first)
    forget_fast_paths()
    assert not is_valid(state)
    assert is_valid(making_fast_path(second))


def test_executions_are_not_kept() -> None:
    execution = Execution()
    making_fast_path(execution)
    alive = weakref.ref(execution)
    del execution
    gc.collect()
    assert alive() is None
    forget_fast_paths()
