"""Variables that choose devices, and that a running service manager was started without."""

import os

import pytest

from neurald.service.manager.state import DriverState, DriverStatus, ManagerStatus
from neurald.service.manager.unheeded_variables import unheeded_variables


def manager(process: int) -> ManagerStatus:
    """A manager of a driver `my-npu`; its process is another one of the tests."""
    driver = DriverStatus(
        name="my-npu",
        address="unix:///run/my-npu.sock",
        state=DriverState.STOPPED,
        reason="",
        process=None,
        sessions=None,
        sandbox=None,
        sandbox_missing=(),
        starts=0,
        deaths=0,
        last_exit="",
        last_lines=(),
    )
    return ManagerStatus(process=process, directory="/run", drivers=(driver,))


def test_only_variables_that_choose_devices_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # This process was started without any of them.
    for name in ("NEURALD_MY_NPU_CORE", "NEURALD_OPENCL_DEVICE", "NEURALD_POLICY", "CUDA_X", "MY_NPU_Y"):
        monkeypatch.setenv(name, "0:1")
    sentences = unheeded_variables(manager(os.getpid()))
    assert [each.split()[0] for each in sentences] == ["NEURALD_MY_NPU_CORE", "NEURALD_OPENCL_DEVICE"]
    assert "is '0:1' here and not set in the service manager" in sentences[0]


def test_a_manager_that_has_ended() -> None:
    assert unheeded_variables(manager(2**22 + 1)) == ()
