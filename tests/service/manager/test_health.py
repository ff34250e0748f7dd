"""A driver that cannot work any more is noticed, not said to be ready, and replaced.

Limits of time leave much for a busy machine; the order of events does not.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.daemon.unwell import ILLNESS_VARIABLE
from support.models.addition import addition, request
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import DeadObject, Error, UnavailableDevice
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.service.manager.state import DriverState


class Clinic(Managed):
    """A manager of the driver in `support.daemon.unwell`."""

    def configure(self, **settings: object) -> None:
        """Writes the configuration file."""
        lines = ["[drivers.adder]", 'driver = "support.daemon.unwell:create"', 'sandbox = "off"']
        lines += [f"{name} = {value}" for name, value in settings.items()]
        lines += ["[drivers.adder.environment]", f'{ILLNESS_VARIABLE} = "{self.behaviour}"']
        self.file.write_text("\n".join(lines) + "\n")

    @property
    def times_ready(self) -> int:
        """The number of times that the driver has become ready."""
        return self.log.count("adder: READY")


@pytest.fixture
def clinic(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("m")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    folder.chmod(0o700)
    with Clinic(folder, settings={"limits": "{execution_s = 3}"}) as found:
        yield found


def run(device: RemoteDevice, deadline_s: float | None = None) -> float:
    """Computes 1 + 1 on a device."""
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    result = np.zeros(2, np.float32)
    until = None if deadline_s is None else time.monotonic() + deadline_s
    prepared.execute(request(np.ones(2, np.float32), result), ExecuteOptions(deadline_s=until))
    return float(result[0])


def names() -> list[str]:
    return [device.name for device in nd.devices()]


@contextlib.contextmanager
def in_background(call: Callable[[], object]) -> Iterator[list[Error]]:
    """Makes a call that fails; the list has its error afterwards."""
    errors: list[Error] = []

    def make() -> None:
        try:
            call()
        except Error as error:
            errors.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    yield errors
    thread.join(60)
    assert not thread.is_alive()
    assert errors


def healed(clinic: Clinic) -> None:
    """Waits for the successor of the first process, which must work and be listed."""
    wait_until(lambda: clinic.times_ready == 2)
    wait_until(lambda: clinic.status().state is DriverState.READY)
    device = connect(str(clinic.address))
    assert run(device) == 2
    wait_until(lambda: "adder@adder" in names())
    assert clinic.status().deaths == 1


def test_a_stopped_driver(clinic: Clinic) -> None:
    device = connect(str(clinic.address))
    assert run(device) == 2
    assert names() == ["cpu", "adder@adder"]
    wait_until(lambda: clinic.status().sessions)
    process = clinic.status().process
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    # Whoever looks sees it before the manager does.
    assert names() == ["cpu"]
    with pytest.raises(DeadObject):
        run(device)
    wait_until(lambda: clinic.status().deaths)
    assert "silent for 2 s" in clinic.log
    healed(clinic)


def test_a_deadlock(clinic: Clinic) -> None:
    device = connect(str(clinic.address))
    assert run(device) == 2
    wait_until(lambda: clinic.status().sessions)
    clinic.behaviour.write_text("deadlock")
    with in_background(lambda: run(device)):
        # Its successor may be ready before anybody looks.
        wait_until(lambda: clinic.status().state is not DriverState.READY or clinic.status().deaths)
        with contextlib.suppress(UnavailableDevice):
            connect(str(clinic.address))
        wait_until(lambda: clinic.status().deaths)
    assert "silent for 2 s" in clinic.log
    # The stacks of all threads show where it hangs.
    assert "Fatal Python error: Aborted" in clinic.log
    assert "_fall_ill" in clinic.log
    healed(clinic)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("deadline_s", [0.2, None], ids=["deadline", "limit of the operator"])
def test_an_endless_kernel(clinic: Clinic, deadline_s: float | None) -> None:
    device = connect(str(clinic.address))
    assert run(device) == 2
    wait_until(lambda: clinic.status().sessions)
    clinic.behaviour.write_text("endless")
    started = time.monotonic()
    with in_background(lambda: run(device, deadline_s)):
        wait_until(lambda: clinic.status().deaths)
        assert time.monotonic() - started >= (3 if deadline_s is None else 1.2)
    assert "an execution exceeds its time limit" in clinic.log
    assert "_fall_ill" in clinic.log
    healed(clinic)


def test_a_lost_device(clinic: Clinic) -> None:
    device = connect(str(clinic.address))
    assert run(device) == 2
    wait_until(lambda: clinic.status().sessions)
    clinic.behaviour.write_text("lost")
    with in_background(lambda: run(device)):
        pass
    wait_until(lambda: clinic.status().deaths)
    assert "its device is lost" in clinic.log
    healed(clinic)


def test_new_clients_are_refused_from_the_moment_of_notice(clinic: Clinic) -> None:
    device = connect(str(clinic.address))
    assert run(device) == 2
    process = clinic.status().process
    assert process is not None
    wait_until(lambda: clinic.status().sessions)
    clinic.behaviour.write_text("endless")
    with in_background(lambda: run(device, 0.1)):
        wait_until(lambda: "exceeds its time limit" in clinic.log)
        # Not before the successor is ready does anything say that it is.
        states = []

        def is_replaced() -> bool:
            states.append(clinic.status())
            return states[-1].state is DriverState.READY

        wait_until(is_replaced)
        assert process not in {each.process for each in states if each.state is DriverState.READY}
    assert clinic.status().process != process
