"""Processes of the service are killed and stopped while clients call it in every way: no answer is
wrong, and a client that repeats what the service did not answer gets an answer to every call."""

import signal
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from faults.service_kills import served, strike, ways_of
from support.inference.insistent import InsistentClients


def test_no_call_is_lost(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(Path(tmp_path_factory.mktemp("k"))) as managed:
        clients = InsistentClients(ways_of(managed))
        try:
            clients.wait_for_more(10)
            for kind, fault in (
                ("worker", signal.SIGKILL),
                ("worker", signal.SIGSTOP),
                ("worker", signal.SIGSEGV),
                ("front end", signal.SIGKILL),
                ("worker", signal.SIGKILL),
            ):
                strike(managed, kind, fault)
                clients.wait_for_more(30)
        finally:
            clients.stop()
    assert (clients.wrong, clients.lost) == ([], [])
