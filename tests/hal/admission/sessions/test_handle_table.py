"""A table of handles: limits, one use, and the end of its session."""

import itertools
import threading

import pytest

from neurald.hal.admission.sessions.handle_table import HandleTable
from neurald.hal.errors import SESSION_OVER, BadData, BadState, DeadObject, ResourceExhaustedTransient


@pytest.fixture
def table() -> HandleTable[int, str]:
    numbers = itertools.count(1)
    return HandleTable("prepared model", lambda: next(numbers), limit=2, limit_name="prepared_models")


def test_objects_are_found_until_they_are_taken(table: HandleTable[int, str]) -> None:
    first, second = table.add(lambda: "a"), table.add(lambda: "b")
    assert (table.find(first), table.find(second), len(table)) == ("a", "b", 2)
    assert table.take(first) == "a"
    assert table.values() == ("b",)
    for use in (table.find, table.take):
        with pytest.raises(BadData, match=f"prepared model {first} is not known in this session"):
            use(first)
    table.discard(second)
    table.discard(second)
    assert not len(table)
    assert table.add(lambda: "c") not in (first, second)


def test_a_full_table_makes_nothing(table: HandleTable[int, str]) -> None:
    table.require_space()
    first = table.add(lambda: "a")
    table.add(lambda: "b")
    with pytest.raises(ResourceExhaustedTransient, match=r"2 prepared models.*\(prepared_models\)"):
        table.require_space()
    with pytest.raises(ResourceExhaustedTransient, match=r"2 prepared models.*\(prepared_models\)"):
        table.add(lambda: pytest.fail("called for an object that cannot be kept"))
    table.discard(first)
    table.add(lambda: "c")


def test_what_cannot_be_made_is_not_kept(table: HandleTable[int, str]) -> None:
    def fail() -> str:
        raise ResourceExhaustedTransient("no thread can be started")

    with pytest.raises(ResourceExhaustedTransient, match="no thread"):
        table.add(fail)
    assert not len(table)


def test_an_object_that_fails_the_check_stays(table: HandleTable[int, str]) -> None:
    def refuse(found: str) -> None:
        raise BadState(f"{found} is not over yet")

    handle = table.add(lambda: "a")
    with pytest.raises(BadState, match="a is not over yet"):
        table.take(handle, refuse)
    assert table.take(handle) == "a"


def test_a_closed_table_takes_nothing_more_and_says_that_it_is_closed(table: HandleTable[int, str]) -> None:
    handle = table.add(lambda: "a")
    assert table.close() == ("a",)
    assert table.close() == ()
    for each in (handle, handle + 1):
        for use in (table.find, table.take):
            with pytest.raises(DeadObject, match=f"^{SESSION_OVER}$"):
                use(each)
    table.discard(handle)
    with pytest.raises(DeadObject):
        table.add(lambda: pytest.fail("called for a closed table"))


def test_messages_do_not_show_tokens() -> None:
    tokens = HandleTable[bytes, str]("memory token", lambda: b"secret")
    tokens.add(lambda: "a")
    with pytest.raises(BadData) as caught:
        tokens.find(b"guess")
    assert "guess" not in str(caught.value)


def test_threads_never_pass_the_limit() -> None:
    numbers = itertools.count(1)
    table = HandleTable[int, int]("object", lambda: next(numbers), limit=10)
    added: list[int] = []

    def work() -> None:
        for _ in range(50):
            try:
                added.append(table.add(lambda: 0))
            except ResourceExhaustedTransient:
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table) == len(set(added)) == 10
