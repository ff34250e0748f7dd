"""Runs a driver daemon as a child process during a block."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import neurald as nd
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.own_program import own_program
from neurald.hal.process.signal_handlers import signals_handled

_MAX_START_S = 30.0
#: Longer than services and daemons wait for their running requests: one that is killed leaves its
#: temporary files.
_MAX_STOP_S = 40.0


@contextmanager
def driver_daemon(driver: str) -> Iterator[str]:
    """Runs `neurald driver` on a private socket during the block, and yields its address.

    Args:
        driver: the driver to serve, as the command takes it.

    Raises:
        UnavailableDevice: the daemon ended, or did not serve in time; the message contains its last
            line of output.
    """
    with (
        tempfile.TemporaryDirectory(prefix="neurald-") as folder,
        tempfile.TemporaryFile() as messages,
        termination_as_interrupt(),
    ):
        address = f"unix://{Path(folder) / 'driver.sock'}"
        command = own_program("neurald", "driver", driver, "--listen", address)
        # The daemon must also end if this process is killed.
        command += ["--until-exit-of", str(os.getpid())]
        # The daemon has a session of its own, so that Ctrl-C reaches only this process, which then
        # stops the daemon in an orderly way.
        process = subprocess.Popen(  # noqa: S603 - this Python, and a module of this package
            command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, start_new_session=True
        )
        with stopped_after(process):
            if not _wait_until_served(process, address):
                messages.seek(0)
                output = messages.read().decode(errors="replace").strip().splitlines()
                reason = output[-1] if output else f"it printed nothing (exit status {process.poll()})"
                raise UnavailableDevice(f"the daemon for {driver} did not start: {reason}")
            yield address


def _wait_until_served(process: "subprocess.Popen[bytes]", address: str) -> bool:
    end = time.monotonic() + _MAX_START_S
    while process.poll() is None and time.monotonic() < end:
        if Path(address.removeprefix("unix://")).exists():
            try:
                nd.connect(address)
            except UnavailableDevice:
                pass
            else:
                return True
        time.sleep(0.02)
    return False


@contextmanager
def stopped_after(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Stops a process at the end of the block."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_MAX_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end the block like Ctrl-C, so that the block cleans up."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with signals_handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield
