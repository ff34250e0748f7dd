"""The command `neurald top`."""

import os

import pytest
from support.daemon.command_line import invoke, invoke_json

from neurald.hal.errors import UnavailableDevice
from neurald.service.manager import control
from neurald.service.manager.state import (
    DriverState,
    DriverStatus,
    ManagerStatus,
    ModelStatus,
    ServiceStatus,
)
from neurald.service.telemetry import page_state
from neurald.service.telemetry.page_state import ModelState, PageState


def driver(name: str, process: int | None, state: DriverState, reason: str = "") -> DriverStatus:
    return DriverStatus(
        name=name,
        address=f"unix:///run/{name}.sock",
        listen="",
        state=state,
        reason=reason,
        process=process,
        spare=None,
        sessions=None if process is None else 2,
        sandbox="full",
        sandbox_missing=(),
        starts=3,
        deaths=1,
        last_exit="",
        last_lines=(),
    )


@pytest.fixture(autouse=True)
def questions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Answers for a manager; returns whether each question was for the machine's."""
    asked: list[bool] = []

    def answer(*, system: bool = False) -> ManagerStatus:
        asked.append(system)
        drivers = (
            driver("gpu", os.getpid(), DriverState.READY),
            driver("npu", None, DriverState.BACKOFF, "it died of\x1b[31m"),
        )
        return ManagerStatus(process=1, directory="/run", drivers=drivers)

    monkeypatch.setattr(control, "manager_status", answer)
    return asked


def test_one_table_without_a_terminal(questions: list[bool]) -> None:
    result = invoke("top")
    assert result.exit_code == 0, result.stderr
    title, _, gpu, npu = result.stdout.splitlines()
    assert title.split()[:5] == ["driver", "state", "process", "cores", "MiB"]
    assert gpu.split()[:3] == ["gpu", "READY", str(os.getpid())]
    assert float(gpu.split()[3]) > 0
    assert int(gpu.split()[4]) > 10
    assert npu.split()[:5] == ["npu", "BACKOFF", "-", "-", "-"]
    assert "it died of\\x1b[31m" in npu
    assert questions == [False]


def test_several_tables(questions: list[bool]) -> None:
    result = invoke("top", "--count", "3", "--interval", "0.1", "--system")
    assert result.stdout.count("BACKOFF") == 3
    assert questions == [True] * 4, "the first measurement covers the life of each process"


def test_json() -> None:
    gpu, npu = invoke_json("top")
    assert (gpu["driver"], gpu["sessions"], gpu["deaths"], gpu["processes"] >= 1) == ("gpu", 2, 1, True)
    assert (npu["cores"], npu["memory_bytes"], npu["reason"]) == (None, None, "it died of\x1b[31m")


@pytest.mark.parametrize("page", [None, "wants a token", "answers"])
def test_models_of_the_manager(page: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are shown without `--web`, with figures if there is a live page that answers."""
    model = ModelStatus(name="digits", version="2", is_ready=True, devices=("cpu", "gpu", "cpu"))
    service = ServiceStatus(
        process=1, addresses={} if page is None else {"web": "127.0.0.1:5"}, models=(model,)
    )
    status = ManagerStatus(process=1, directory="/run", drivers=(), service=service)
    monkeypatch.setattr(control, "manager_status", lambda *, system=False: status)

    def read(address: str, token: str = "") -> PageState:
        assert (address, token) == ("127.0.0.1:5", "")
        if page == "wants a token":
            raise UnavailableDevice("the answer has status 401")
        known = ModelState(name="digits", version="2", is_ready=True, requests=7, devices=("cpu", "gpu"))
        return PageState(models=(known,), drivers=())

    monkeypatch.setattr(page_state, "read_page_state", read)
    result = invoke("top")
    assert result.exit_code == 0, result.stderr
    title, _, digits = result.stdout.splitlines()[:3]
    assert title.split()[:5] == ["model", "state", "wait", "run", "done"]
    assert digits.split()[:6] == ["digits", "2", "READY", "-", "-", "7" if page == "answers" else "-"]
    assert digits.endswith("cpu, gpu")


def test_without_a_manager(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        result = invoke("top")
    assert result.exit_code == 1
    assert "neurald serve" in result.stderr
