"""A prepared model that a client of a daemon has, with what its executions need."""

import threading

from msgspec import Struct, field

from neurald.hal.accounting.account import Account
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.buffers.staging import ArenaPool
from neurald.hal.crashes.breadcrumbs import Crumb
from neurald.hal.crashes.watch import NO_CRUMB
from neurald.hal.device import PreparedModel
from neurald.hal.model.model import Model
from neurald.hal.model.types import Priority


class RegisteredModel(Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """A prepared model of a session.

    Attributes:
        model: the model that requests are checked against. For a prepared model from a cache it has
            only the inputs and outputs.
        prepared_model: the device's prepared model.
        arenas: memory for copies of arguments.
        priority: the priority of its executions.
        account: charged for the memory that its executions take.
        cache_key: under which its artifact may be asked for; empty if it may not.
        crumb: what breadcrumbs say of it.
        improved: the event that is set once it runs faster code than at first; None if it never
            will.
        pace: the pace of its executions.
    """

    model: Model
    prepared_model: PreparedModel
    arenas: ArenaPool
    priority: Priority
    account: Account
    cache_key: bytes = b""
    crumb: Crumb = NO_CRUMB
    improved: threading.Event | None = None
    pace: ExecutionPace = field(default_factory=ExecutionPace)
