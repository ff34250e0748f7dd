"""Resources that a session holds, and their release at its end."""

import gc
import threading

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.admission.sessions.sessions import Sessions
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import BadData, DeadObject, ResourceExhaustedTransient
from neurald.hal.memory.pool import SharedMemory

LIMITS = Limits(sessions=2, prepared_models=2, memories=3, memory_bytes=1000)
MODEL = addition(np.ones(2))


@pytest.fixture
def session() -> Session:
    return Session(LIMITS)


def prepare(session: Session) -> int:
    return session.models.add(MODEL, AddingDevice().prepare_model(MODEL, PrepareOptions()))


def test_by_default_no_session_takes_all_the_memory() -> None:
    assert 1 << 20 < Limits().memory_bytes <= 8 << 30


def test_prepared_models(session: Session) -> None:
    first, second = prepare(session), prepare(session)
    assert session.models.find(first).model is MODEL
    with pytest.raises(ResourceExhaustedTransient):
        prepare(session)
    with pytest.raises(ResourceExhaustedTransient):
        session.models.require_space()
    session.models.release(first)
    for handle in (first, 0, 99):
        with pytest.raises(BadData, match=f"prepared model {handle} "):
            session.models.find(handle)
        with pytest.raises(BadData):
            session.models.release(handle)
    assert prepare(session) not in (first, second)


def test_nothing_is_added_to_a_session_that_is_over(session: Session) -> None:
    token = session.memories.add(SharedMemory.create(10))
    handle = prepare(session)
    session.close()
    gc.collect()
    assert (len(session.memories), len(session.models)) == (0, 0)
    with pytest.raises(DeadObject):
        session.memories.take(token)
    with pytest.raises(DeadObject):
        session.models.find(handle)
    with pytest.raises(DeadObject):
        session.memories.add(SharedMemory.create(10))
    with pytest.raises(DeadObject):
        prepare(session)


def test_sessions() -> None:
    sessions = Sessions(LIMITS)
    first, second = sessions.open(), sessions.open()
    assert sessions.find(first.token) is first
    assert set(sessions.all()) == {first, second}
    with pytest.raises(ResourceExhaustedTransient):
        sessions.open()
    sessions.close(first)
    sessions.close(first)
    with pytest.raises(DeadObject):
        sessions.find(first.token)
    sessions.open()


def test_threads_never_pass_the_limits() -> None:
    session = Session(Limits(memories=10, memory_bytes=10**6))
    kept: list[object] = []

    def work() -> None:
        for _ in range(200):
            try:
                kept.append(session.memories.new(1))
            except ResourceExhaustedTransient:
                return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 10
