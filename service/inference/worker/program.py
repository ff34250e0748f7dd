"""The program of a worker: loads one model when it is ordered to, and serves its lanes.

It is started before there is a model for it, and loads its modules in the meantime. It ends with
the process that started it, or when the control socket is closed.
"""

import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from neurald.hal.errors import Error, ResultCode
from neurald.hal.lanes import socket_end
from neurald.hal.process.address import Address
from neurald.hal.process.files.runtime_directory import machine_directory, runtime_directory
from neurald.hal.process.parent import die_with
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.records import DECODE_ERRORS
from neurald.service.inference.worker.orders import (
    MAX_CONTROL_BYTES,
    Cancel,
    CutWindow,
    Explained,
    ExplainOrder,
    LoadFailure,
    LoadOrder,
    OpenLane,
    Report,
    decode_order,
    encode,
)
from neurald.service.inference.worker.read_files import read_files
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.logs.setup import start_log
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.sandbox import enter

if TYPE_CHECKING:
    from neurald.service.inference.worker.lane_server import LaneServer

logger = logging.getLogger(__name__)

_Order = TypeVar("_Order", LoadOrder, ExplainOrder)
#: How often the state of devices is examined.
_HEALTH_S: Final = 0.05
#: How long a driver has to answer when it is asked whether it takes work.
_ANSWER_S: Final = 0.1
_MAX_MESSAGE: Final = 4000
#: How many callers a model has at once, each of which takes a thread.
_MAX_LANES: Final = 256
_SWITCH_INTERVAL_S: Final = 2e-4


def main(arguments: list[str]) -> None:
    """Runs a worker.

    Args:
        arguments: descriptor of the control socket, id of the parent, mode of the sandbox, format
            and level of the log.
    """
    descriptor, parent, sandbox, log_format, log_level = arguments
    die_with(int(parent))
    control = socket.socket(fileno=int(descriptor))
    entered = enter(
        SandboxMode(sandbox),
        [Address(path=runtime_directory() / "inference" / "worker.sock")],
        # Where the sockets of drivers are.
        listable=(runtime_directory(), machine_directory()),
        readable=read_files(),
        driver="models",
        is_own_process=True,
    )
    start_log(LogFormat(log_format), LogLevel(log_level))
    try:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        Worker(control).serve()
    finally:
        entered.remove_temporary_files()


class Worker:
    """Obeys the orders of the control socket until it is closed.

    Args:
        control: the socket.
    """

    def __init__(self, control: socket.socket) -> None:
        # Imported here, in the sandbox and before the first order.
        from neurald.runtime.devices.local import cpu_device
        from neurald.service.inference.worker import lane_server, leavers, loaded_model

        cpu_device()
        self._model_type, self._lane_type = loaded_model.LoadedModel, lane_server.LaneServer
        self._control = control
        self._model: loaded_model.LoadedModel | None = None
        self._lanes: dict[int, lane_server.LaneServer] = {}
        self._sending = threading.Lock()
        self._leavers = leavers.Leavers()

    def serve(self) -> None:
        """Obeys orders; returns at the end of the control socket."""
        while True:
            try:
                packet, descriptor = socket_end.receive(self._control)
            except OSError:
                return
            if not packet:
                return
            try:
                self._obey(packet, descriptor)
            except DECODE_ERRORS as error:
                logger.error("an order of the front end is not understood: %s", error)

    def _obey(self, packet: bytes, descriptor: int | None) -> None:
        order = decode_order(packet)
        if isinstance(order, LoadOrder) and descriptor is not None:
            lacking = _begin("neurald load", self._load, order, descriptor)
            if lacking:
                self._report(LoadFailure(code=ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, message=lacking))
        elif isinstance(order, OpenLane) and descriptor is not None and self._model is not None:
            lane = self._lane_type(socket.socket(fileno=descriptor), self._model, is_trusted=order.is_trusted)
            self._serve_lane(order, lane)
        elif isinstance(order, Cancel):
            lane_server = self._lanes.get(order.lane)
            if lane_server is not None:
                lane_server.cancel(order.number)
        elif isinstance(order, CutWindow):
            lane_server = self._lanes.get(order.lane)
            if lane_server is not None:
                lane_server.cut_window(order.window)
        elif isinstance(order, ExplainOrder) and descriptor is not None:
            lacking = _begin("neurald explain", self._explain, order, descriptor)
            if lacking:
                self._report(Explained(lacking))
        elif self._model is not None:
            self._report(self._model.health())

    def _serve_lane(self, order: OpenLane, lane: "LaneServer") -> None:
        """Begins to serve a lane, and forgets those that are closed."""
        self._lanes = {number: each for number, each in self._lanes.items() if not each.is_over}
        if len(self._lanes) >= _MAX_LANES:
            lane.end.close()
            return
        try:
            if not order.is_trusted:
                self._leavers.watch(lane)
            lane.start()
        except RuntimeError as error:
            # Other lanes go on. The caller of this one sees that it is closed.
            logger.warning("a lane cannot be served, since no thread can be started: %s", error)
            with contextlib.suppress(OSError):
                lane.end.shutdown(socket.SHUT_RDWR)  # `leavers` may hold it, too
            lane.end.close()
            return
        self._lanes[order.lane] = lane

    def _load(self, order: LoadOrder, descriptor: int) -> None:
        report: Report
        try:
            self._model = self._model_type(descriptor, order)
            report = self._model.description
            if len(encode(report)) > MAX_CONTROL_BYTES:
                report = LoadFailure(
                    code=ResultCode.BAD_DATA, message="the model has too many inputs and outputs to serve"
                )
        except Error as error:
            report = LoadFailure(code=error.code, message=str(error)[:_MAX_MESSAGE])
        except MemoryError:
            report = LoadFailure(code=ResultCode.OUT_OF_MEMORY, message="there is not enough memory")
        except Exception as error:
            logger.exception("a model cannot be loaded")
            report = LoadFailure(
                code=ResultCode.OP_FAILED, message=f"unexpected {type(error).__name__} while loading"
            )
        finally:
            os.close(descriptor)
        self._report(report)
        if self._model is not None and self._model.compilation.has_explicit_devices:
            self._watch()

    def _explain(self, order: ExplainOrder, descriptor: int) -> None:
        """Writes what explains the model to a file."""
        failure = ""
        try:
            with open(descriptor, "wb") as file:
                if self._model is None:
                    failure = "the model is not loaded"
                else:
                    file.write(self._model.explained(order.title))
        except Exception as error:
            logger.exception("a model cannot be explained")
            failure = f"unexpected {type(error).__name__}"
        self._report(Explained(failure))

    def _watch(self) -> None:
        """Reports when the model becomes ready, or no longer is; returns when the process ends."""
        assert self._model is not None  # noqa: S101 - the caller has loaded it
        pause = threading.Event()
        was_ready = True
        while not pause.wait(_HEALTH_S):
            health = self._model.examine(_ANSWER_S)
            if health.is_ready != was_ready:
                was_ready = health.is_ready
                self._report(health)
            if not health.is_ready:
                with contextlib.suppress(Error):
                    self._model.revive()

    def _report(self, report: Report) -> None:
        with self._sending, contextlib.suppress(OSError):
            socket_end.send(self._control, encode(report))


def _begin(name: str, obey: Callable[[_Order, int], None], order: _Order, descriptor: int) -> str:
    """Lets a thread obey an order, which may take long; returns why none can be started, if so.

    Args:
        name: the name of the thread.
        obey: the function that is called with the order and its descriptor, which it closes.
        order: the order.
        descriptor: what came with it.
    """
    try:
        CheckedThread(target=obey, args=(order, descriptor), name=name, daemon=True).start()
    except RuntimeError as error:
        os.close(descriptor)
        return f"the worker cannot start a thread: {error}; try again when other programs need fewer threads"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
