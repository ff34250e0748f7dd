"""Decides which executions of a ring native code of the driver serves, and has it serve them."""

import logging
import socket
from typing import Final

from neurald.hal.accounting.account import charging
from neurald.hal.admission.admission import Admission
from neurald.hal.admission.executions.native_gate import GatePlace
from neurald.hal.admission.sessions.registered_model import RegisteredModel
from neurald.hal.admission.sessions.session import Session
from neurald.hal.crashes.breadcrumbs import ActivitySlot
from neurald.hal.errors import DRIVER_FAULTS, Error
from neurald.hal.execution.native_serving import PYTHON, REPORT, NativeCall, native_call
from neurald.hal.model.types import Priority
from neurald.hal.process.threads.time_slices import AdaptiveSlices
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.server.received_request import ReceivedRequest
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER, RingEnd
from neurald.hal.rpc.transport.ring_packet import SUBMISSION
from neurald.hal.sync.cancellation import Cancellation

_LOG: Final = logging.getLogger(__name__)

#: Native code only runs executions that use a processor for less. With longer ones, Python takes a
#: small part of the time, and they wait in the same queue as all others.
_MAX_NATIVE_S: Final = 0.01


class NativeExecutions:
    """The executions of a ring that native code serves. Only the thread of the ring uses this.

    Args:
        session: the session of the client.
        connection: the connection to the client.
        admission: the admission of the daemon.
        ring: the daemon's end.
        cancellation: the cancellation of its executions.

    Attributes:
        activity: the slot of the thread, which it sets before anything is served.
    """

    activity: ActivitySlot

    def __init__(
        self,
        session: Session,
        connection: socket.socket,
        admission: Admission,
        ring: RingEnd,
        cancellation: Cancellation,
    ) -> None:
        self._session = session
        self._connection = connection
        self._admission = admission
        self._ring = ring
        self._cancellation = cancellation
        self._native: NativeRing | None = None

    @property
    def is_useful(self) -> bool:
        """True if native code may run some request."""
        return self._native is not None and self._native.is_useful

    def serve(self, slices: AdaptiveSlices) -> int:
        """Makes native code serve until Python is needed; returns why.

        Args:
            slices: learn how long it has worked.
        """
        native = self._native
        if native is None or not native.is_useful:
            return PYTHON
        with self._admission.native_runs(self._session, native):
            reason = REPORT
            while reason == REPORT:
                reason = native.serve()
                slices.note_work(native.last_run_s)
        return reason

    def allow(
        self, received: ReceivedRequest, registered: RegisteredModel, entry: bytes, *, needs_instance: bool
    ) -> None:
        """Lets native code run a request that Python has just run, if it can and may.

        Args:
            received: the request.
            registered: its prepared model.
            entry: the submission.
            needs_instance: whether native code knows it, and lacked an instance of the model.
        """
        number, measure, *_ = SUBMISSION.unpack_from(entry)
        native = self._native
        staged, shapes = received.staged, received.shapes
        if (
            not received.may_be_native
            or measure
            or not STORES_IN_ORDER
            or received.processor_s > _MAX_NATIVE_S
            or staged is None
            or shapes is None
            or registered.priority is not Priority.MEDIUM
        ):
            return
        try:
            with charging(registered.account):
                if native is not None and native.may_run(number):
                    if needs_instance:
                        native.grow(number)
                    return
                call = native_call(registered.prepared_model, staged.request)
                if call is not None:
                    call = call.for_ring(polls=True)
                if native is None and call is not None:
                    native = self._native = self._new(call)
        except Error:  # there is no memory for an instance, or no descriptor
            call = None
        except DRIVER_FAULTS as error:
            _LOG.error("native code cannot run a model", exc_info=error)
            call = None
        if call is None or native is None:
            received.may_be_native = False
            self.forget(number)
            return
        outputs = staged.output_copies(received.types, shapes) if staged.arenas else ()
        native.add(number, entry, call, staged.input_copies, outputs, received.entry, registered)

    def _new(self, call: NativeCall) -> NativeRing:
        gate = self._admission.gate
        return NativeRing(
            call.functions,
            self._ring,
            self._connection,
            self._cancellation,
            self.activity,
            GatePlace(gate=gate, user=gate.share_of(self._session.user), client=self._session.share),
        )

    def forget(self, number: int) -> None:
        """Makes native code run the request with this number no more."""
        if self._native is not None:
            self._native.forget(number)

    def clear(self) -> None:
        """Makes native code run nothing more."""
        if self._native is not None:
            self._native.clear()
