"""Functions of native code: as methods, their attributes, and how long they live."""

import gc
import inspect
import sys
import sysconfig
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from neurald.drivers.cpu.native.python_calls.native_method import has_native_methods
from neurald.drivers.cpu.native.thread_pool import process
from neurald.hal.execution.recorded_calls import RecorderOfCalls, recorded_calls

HAS_NATIVE = not sysconfig.get_config_var("Py_GIL_DISABLED") and sys.implementation.name == "cpython"

pytestmark = [
    pytest.mark.quick,
    pytest.mark.skipif(not HAS_NATIVE, reason="native functions need CPython with a GIL"),
]


class State:
    __slots__ = ("call", "number")

    def __init__(self) -> None:
        self.call = self.number = 0


def native(function: Callable[..., Any]) -> Any:
    """Returns a function of native code that calls another one."""
    assert process.load_step_program()
    state = State()
    asked = RecorderOfCalls(thread=lambda: state, failed=lambda *_: None, first_call=2)
    return recorded_calls(8, asked).recorded(function, 0, is_call=True)


def described(*arguments: Any, **named: Any) -> Any:
    """Returns what it is called with."""
    return arguments, named


class Owner:
    method: Any
    by_class: Any


class Heir(Owner):
    pass


def test_this_interpreter_has_them() -> None:
    assert has_native_methods()
    assert type(native(described)).__name__ == "NativeMethod"


def test_calls_of_methods_pass_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    function = native(described)
    monkeypatch.setattr(Owner, "method", function, raising=False)
    monkeypatch.setattr(Owner, "by_class", classmethod(native(described)), raising=False)
    for made in (Owner(), Heir()):
        assert made.method() == ((made,), {})
        assert made.method(1, *(2, 3), a=4) == ((made, 1, 2, 3), {"a": 4})
        bound = made.method
        assert bound(5) == ((made, 5), {})
        assert bound.__self__ is made
        assert made.by_class(6) == ((type(made), 6), {})
        assert list(map(made.method, "ab")) == [((made, "a"), {}), ((made, "b"), {})]
    assert Owner.method is function
    assert Owner.method(7) == function(7) == ((7,), {})
    assert function(*range(100), **{f"n{n}": n for n in range(100)}) == (
        tuple(range(100)),
        {f"n{n}": n for n in range(100)},
    )


def test_they_have_the_name_and_signature_of_what_they_stand_for() -> None:
    def function(first: int, *, second: int = 2) -> int:
        return first + second

    made = native(function)
    assert made.__name__ == "function"
    assert inspect.unwrap(made) is function
    assert inspect.signature(made) == inspect.signature(function)


def test_an_object_that_nobody_has_filled_cannot_be_called() -> None:
    empty = type(native(described))()
    with pytest.raises(TypeError, match="not"):
        empty(1)
    with pytest.raises(AttributeError):
        _ = empty.__name__


def test_a_function_in_a_cycle_is_collected() -> None:
    class Link:
        method: Any

        def call(self) -> "Link":
            return self

    link = Link()
    link.method = native(link.call)
    assert link.method() is link
    alive = weakref.ref(link)
    del link
    gc.collect()
    assert alive() is None
