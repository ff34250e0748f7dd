"""A worker's process, as the front end sees it."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import DeadObject, Error, OpFailed, ResultCode, error_for
from neurald.hal.lanes import socket_end
from neurald.hal.process.autostart import AUTOSTART_VARIABLE
from neurald.hal.process.own_program import own_program
from neurald.hal.records import DECODE_ERRORS
from neurald.service.crashes.autopsy import describe_end
from neurald.service.inference.models.workers.silence import Silence
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.worker.orders import (
    Cancel,
    CutWindow,
    Explained,
    ExplainOrder,
    LoadFailure,
    LoadOrder,
    ModelDescription,
    ModelHealth,
    OpenLane,
    Ping,
    decode_report,
    encode,
)
from neurald.service.inference.worker.read_files import read_state

#: How often a worker is asked whether it is well.
_PING_S: Final = 0.05
#: How long an explanation may take, and how large it may be.
_MAX_FAILURE: Final = 500
_EXPLAIN_S: Final = 30.0
_MAX_EXPLANATION_BYTES: Final = 64 << 20


class ModelWorker:
    """Starts a worker and watches it. Belongs to one event loop.

    Args:
        options: how to start it.

    Attributes:
        health: what it last reported of its model.
        read_state: what `read_state` returned before its start.
        on_health: the function that is called after it has reported something else than before.
        on_end: the function that is called once it has ended.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self.health = ModelHealth(is_ready=True)
        self.read_state = read_state()
        self.on_health: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._loaded: asyncio.Future[ModelDescription] | None = None
        self._explained: asyncio.Future[str] | None = None
        self._explaining = asyncio.Lock()
        self._lanes = 0
        self._is_hanging = False
        self._ping: asyncio.TimerHandle | None = None
        self._control, theirs = socket_end.pair()
        self._control.setblocking(False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [
                    *own_program("neurald.service.inference.worker.program"),
                    *(str(theirs.fileno()), str(os.getpid()), options.sandbox.value),
                    *(options.log_format.value, options.log_level.value),
                ],
                env={**os.environ, AUTOSTART_VARIABLE: "0"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError:
            self._control.close()
            raise
        finally:
            theirs.close()
        self._silence = Silence(self._process.pid)
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            self._control.close()
            self.end()
            raise
        self._loop.add_reader(self._control.fileno(), self._receive)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """True if its model can be run now."""
        return not self.has_ended and self.health.is_ready and not self._is_hanging

    @property
    def reason(self) -> str:
        """The reason why its model cannot be run now."""
        return "its worker does not answer" if self._is_hanging else self.health.reason

    @property
    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self._process.returncode is not None

    @property
    def exit_text(self) -> str:
        """The end of the process, such as "signal SIGKILL"."""
        status = self._process.returncode
        return "" if status is None else describe_end(status)

    async def load(self, order: LoadOrder, model: int, within_s: float) -> ModelDescription:
        """Makes the worker load a model.

        Args:
            order: how.
            model: descriptor of its file.
            within_s: how long it may take.

        Raises:
            Error: the model cannot be loaded, or the worker died of it or takes too long.
        """
        self._loaded = self._loop.create_future()
        try:
            socket_end.send(self._control, encode(order), model)
        except OSError as error:
            raise DeadObject(f"the worker is gone: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(within_s):
                loaded = await self._loaded
        except TimeoutError:
            self.kill()
            raise DeadObject(f"loading the model took more than {within_s:g} s") from None
        finally:
            self._loaded = None
        self._send_ping()
        return loaded

    async def explain(self, title: str) -> bytes:
        """Returns what explains its model, an untrusted JSON document of `page_document`.

        Args:
            title: the title of the page.

        Raises:
            Error: the worker cannot tell, or takes too long.
        """
        async with self._explaining:
            file = os.memfd_create("neurald explanation")
            self._explained = self._loop.create_future()
            try:
                socket_end.send(self._control, encode(ExplainOrder(title)), file)
                async with asyncio.timeout(_EXPLAIN_S):
                    failure = await self._explained
                if failure:
                    raise OpFailed(f"the model cannot be explained: {failure}")
                return os.pread(file, _MAX_EXPLANATION_BYTES, 0)
            except OSError as error:
                raise DeadObject(f"the worker cannot explain the model: {error}") from None
            finally:
                self._explained = None
                os.close(file)

    def open_lane(self, *, is_trusted: bool) -> tuple[socket.socket, int]:
        """Opens a lane; returns the caller's end and the number of the lane.

        Raises:
            OSError: the worker is gone.
        """
        mine, theirs = socket_end.pair()
        try:
            self._lanes += 1
            order = OpenLane(lane=self._lanes, is_trusted=is_trusted)
            socket_end.send(self._control, encode(order), theirs.fileno())
        except OSError:
            mine.close()
            raise
        finally:
            theirs.close()
        return mine, self._lanes

    def cancel(self, lane: int, number: int) -> None:
        """Ends a run, if it is still under way."""
        with contextlib.suppress(OSError):
            socket_end.send(self._control, encode(Cancel(lane=lane, number=number)))

    def cut_window(self, lane: int, window: int) -> None:
        """Tells the worker to give the memory of a window back."""
        if not self.has_ended:
            with contextlib.suppress(OSError):
                socket_end.send(self._control, encode(CutWindow(lane=lane, window=window)))

    def kill(self) -> None:
        """Ends the process and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the process, and waits until it has ended."""
        self.kill()
        self._process.wait()

    def _send_ping(self) -> None:
        if self.has_ended:
            return
        self._silence.look()
        if self._silence.is_hopeless:
            self.kill()
            return
        if not self._is_hanging and self._silence.is_hang:
            self._is_hanging = True
            self.on_health()
        self._silence.asked()
        with contextlib.suppress(OSError):
            socket_end.send(self._control, encode(Ping()))
        self._ping = self._loop.call_later(_PING_S, self._send_ping)

    def _receive(self) -> None:
        descriptor: int | None = None
        try:
            packet, descriptor = socket_end.receive(self._control)
            if not packet:
                raise ConnectionResetError
            report = decode_report(packet)
        except BlockingIOError:
            return
        except (OSError, *DECODE_ERRORS):
            # A worker that breaks the rules is of no use.
            self._loop.remove_reader(self._control.fileno())
            self.kill()
            return
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self._silence.answered()
        if isinstance(report, ModelHealth):
            if report != self.health or self._is_hanging:
                self.health, self._is_hanging = report, False
                self.on_health()
            return
        if isinstance(report, Explained):
            if self._explained is not None and not self._explained.done():
                self._explained.set_result(report.failure[:_MAX_FAILURE])
            return
        if self._loaded is None or self._loaded.done():
            return
        if isinstance(report, LoadFailure):
            self._loaded.set_exception(_error(report))
        else:
            self._loaded.set_result(report)

    def _reap(self) -> None:
        # Helpers such as compilers end with it. Its id is not free before `wait`.
        self.kill()
        self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if self._ping is not None:
            self._ping.cancel()
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_exception(DeadObject(f"the worker ended: {self.exit_text}"))
        if self._explained is not None and not self._explained.done():
            self._explained.set_exception(DeadObject(f"the worker ended: {self.exit_text}"))
        self.on_end()


def _error(report: LoadFailure) -> Error:
    """Returns the error that a worker has reported, whose code may be any number."""
    try:
        code = ResultCode(report.code)
    except ValueError:
        code = ResultCode.OP_FAILED
    return OpFailed(report.message) if code is ResultCode.NO_ERROR else error_for(code, report.message)
