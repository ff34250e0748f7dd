"""Compiles the models of a daemon's clients in other processes, in a fair order."""

from collections.abc import Callable, Sequence

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.sessions.session import Session
from neurald.hal.compiling.compile_admission import CompileAdmission
from neurald.hal.compiling.pool import CompilePool
from neurald.hal.device import CompileResult, Device, InputShapes, PrepareOptions
from neurald.hal.memory.pool import Memory
from neurald.hal.records import replace
from neurald.hal.rpc.wire.device import encode_prepare_options
from neurald.hal.sync.cancellation import Cancellation


class SessionPool:
    """Compiles the models of all sessions of a daemon. Thread-safe.

    Args:
        driver, device, limits: see `CompilePool`.

    Attributes:
        pool: the processes that compile.
        admission: decides which model is compiled next.
    """

    def __init__(self, driver: str, device: Device, limits: Limits) -> None:
        self.pool = CompilePool(driver, device, limits)
        self.admission = CompileAdmission(limits)

    def compiler(
        self,
        session: Session,
        model: bytes,
        pools: Sequence[Memory],
        options: PrepareOptions,
        on_crash: Callable[[int, str], None],
    ) -> "SessionCompiler":
        """Creates the compiler of one model.

        Args:
            session: the session of the client whose model it is; compilations end with it.
            model: a valid model, encoded as in messages of the wire protocol.
            pools: the memories of its constants.
            options: as for `Device.prepare_model`.
            on_crash: the function that is called if a process dies of the model, with the signal
                that ended it and a description.
        """
        return SessionCompiler(self, session, model, tuple(pools), options, on_crash)

    def close(self) -> None:
        """Ends all processes."""
        self.pool.close()


class SessionCompiler:
    """Implements `neurald.hal.device.Compiler` for one model of one session.

    Args:
        owner: the owner that runs the job.
        session, model, pools, options, on_crash: see `SessionPool.compiler`.
    """

    def __init__(
        self,
        owner: SessionPool,
        session: Session,
        model: bytes,
        pools: tuple[Memory, ...],
        options: PrepareOptions,
        on_crash: Callable[[int, str], None],
    ) -> None:
        self._owner = owner
        self._on_crash = on_crash
        self._session = session
        self._model = model
        self._pools = pools
        self._priority = options.priority
        self._options = encode_prepare_options(replace(options, deadline_s=None))

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        is_open: bool = False,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> CompileResult:
        """See `Compiler.compile`. Waits for its turn among the models of all clients."""
        with self._owner.admission.slot(self._session, self._priority, deadline_s, cancellation) as stop:
            job = self._owner.pool.job(self._model, self._pools, shapes, self._options, is_open=is_open)
            return self._owner.pool.run(job, self._pools, deadline_s, stop, self._on_crash)
