"""The front end as a companion of the service manager."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.service.inference.server import supervision
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.inference.server.supervision import SupervisedFrontEnd

#: A front end that listens at once.
_PROGRAM = 'read -r settings; echo \'{"status": {"process": 1}}\'; '


@pytest.mark.parametrize("end", ["exit 3", "exec sleep 60"])
def test_how_a_front_end_has_ended_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    # Whoever sends a signal to a process that has just ended must not wait for it in passing.
    monkeypatch.setattr(supervision, "own_program", lambda *_: ["/bin/sh", "-c", _PROGRAM + end])

    async def check() -> None:
        for _ in range(30):
            front_end = SupervisedFrontEnd(ServiceSettings())
            await front_end.start()
            if end == "exit 3":
                async with asyncio.timeout(10):
                    while front_end.status().process is not None:
                        await asyncio.sleep(0)
            await front_end.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(check())
    lines = {record.getMessage() for record in caplog.records if "slow" not in record.getMessage()}
    ended = "the execution service ended with status 3, and is started again"
    assert lines == ({ended} if end == "exit 3" else set())


async def _run_until(process: int | None) -> None:
    """Runs a front end until it reports this process."""
    front_end = SupervisedFrontEnd(ServiceSettings())
    await front_end.start()
    async with asyncio.timeout(30):
        while front_end.status().process != process:
            await asyncio.sleep(0.01)
    await front_end.stop()


def test_a_front_end_that_reports_too_much_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "_MAX_LINE_BYTES", 1000)
    program = _PROGRAM + "printf '%05000d\\n' 7; exec sleep 60"
    monkeypatch.setattr(supervision, "own_program", lambda *_: ["/bin/sh", "-c", program])

    asyncio.run(_run_until(None))
    assert "the execution service reports more than 1000 bytes in one line; it is ended" in caplog.text


def test_a_failure_is_that_of_the_last_front_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    program = f"""
        read -r settings; echo >> {started}
        case $(wc -l < {started}) in
        1) echo '{{"status": {{"process": 1}}}}'; exit 1;;
        2) echo '{{"status": {{"process": null, "failure": "the address is in use"}}}}'; exit 2;;
        3) exit 3;;
        *) echo '{{"status": {{"process": 4}}}}'; exec sleep 60;;
        esac
    """
    monkeypatch.setattr(supervision, "own_program", lambda *_: ["/bin/sh", "-c", program])

    asyncio.run(_run_until(4))
    ended = [each.getMessage() for each in caplog.records if "ended with status" in each.getMessage()]
    assert ended == [
        "the execution service ended with status 1, and is started again",
        "the execution service ended with status 2 (the address is in use), and is started again",
        "the execution service ended with status 3, and is started again",
    ]


def test_choices_of_clients_are_given_to_the_next_front_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    choices = {
        "models": {"a": False},
        "log": {"log_verbose_level": 1},
        "traces": {"": {"trace_rate": ["7"]}},
        "regions": {"r": {"key": "/k", "offset": 0, "size": 4, "file": 5}},
    }
    # Each keeps its settings; the first two end, one of them before it could report anything.
    program = f"""
        read -r settings; echo "$settings" >> {given}
        case $(wc -l < {given}) in
        1) echo '{json.dumps({"choices": choices})}'; echo '{{"status": {{"process": 1}}}}'; exit 1;;
        2) echo '{{"status": {{"process": null, "failure": "the address is in use"}}}}'; exit 1;;
        *) echo '{{"status": {{"process": 3}}}}'; exec sleep 60;;
        esac
    """
    monkeypatch.setattr(supervision, "own_program", lambda *_: ["/bin/sh", "-c", program])

    asyncio.run(_run_until(3))
    first, *others = [json.loads(line)["choices"] for line in given.read_text().splitlines()]
    assert not any(first.values())
    assert others == [choices, choices]


def test_why_a_front_end_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """read -r settings; echo '{"status": {"process": null, "failure": "it is broken"}}'; exit 1"""
    monkeypatch.setattr(supervision, "own_program", lambda *_: ["/bin/sh", "-c", program])

    async def check() -> None:
        front_end = SupervisedFrontEnd(ServiceSettings())
        with pytest.raises(BadState, match=r"^the execution service could not be started: it is broken$"):
            await front_end.start()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("addresses", "end"),
    [
        ({"http": "127.0.0.1:1", "grpc": "127.0.0.1:2"}, " over HTTP at 127.0.0.1:1 and GRPC at 127.0.0.1:2"),
        (
            {"http": "127.0.0.1:1", "web": "127.0.0.1:3"},
            " over HTTP at 127.0.0.1:1; the live page is http://127.0.0.1:3",
        ),
        ({"web": "127.0.0.1:3"}, "; the live page is http://127.0.0.1:3"),
    ],
)
def test_where_a_service_listens_is_said(addresses: dict[str, str], end: str) -> None:
    assert supervision._places(addresses) == end
