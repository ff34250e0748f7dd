"""The process that forks the compiling processes, as its owner sees it.

What it runs is `neurald.hal.compiling.server`.
"""

import _socket
import contextlib
import os
import sys

from neurald.hal.compiling.job import EXCHANGE_S, last_text
from neurald.hal.errors import OpFailed
from neurald.hal.open_file_limit import descriptor_advice
from neurald.hal.process.interpreter import NO_INTERPRETER, interpreter
from neurald.hal.process.spawned import SpawnedProcess
from neurald.hal.rpc.transport.packet import rights

#: Imported modules last until the process ends, so a search for garbage meanwhile finds nothing.
_PROGRAM = (
    # Libraries of the application may have opened descriptors that programs inherit.
    "import os; os.closerange(3, os.sysconf('SC_OPEN_MAX')); "
    "import gc; gc.disable(); import sys; "
    "driver, niceness, lasts, spares, bytecode, *sys.path[:] = sys.argv[1:]; "
    "sys.pycache_prefix = bytecode or None; "
    "from neurald.hal.compiling.spared_imports import spare_imports; spares and spare_imports(); "
    "from neurald.hal.compiling.server import main; "
    "main(0, driver, niceness=int(niceness), lasts=bool(lasts))"
)


class ForkServerProcess:
    """The process that forks the compiling processes.

    Args:
        driver, niceness: see `CompilePool`.
        lasts: whether it stays when there are no jobs.
        spares: whether it leaves out imports that compiling does not need, see `SparesImports`.

    Raises:
        OpFailed: it cannot be started.
    """

    def __init__(self, driver: str, *, niceness: int, lasts: bool, spares: bool) -> None:
        path = interpreter()
        if not path:
            raise OpFailed(f"no compiler process can be started: {NO_INTERPRETER}")
        # An empty text is false.
        about = (driver, str(niceness), "yes" * lasts, "yes" * spares, sys.pycache_prefix or "")
        self._stderr = -1
        try:
            self._control, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        except OSError as error:
            raise _not_started(error) from None
        with contextlib.closing(theirs):
            try:
                self._control.settimeout(EXCHANGE_S)
                # Whoever reads what the application writes, such as `tee`, waits for all that hold
                # its pipe, and this process may outlive the application.
                self._stderr = os.memfd_create("neurald compiler messages")
                # Ctrl-C does not reach its group. It stays in the session, since Linux may schedule
                # sessions as groups of equal rights, and niceness then counts only within a
                # session.
                self._process = SpawnedProcess(
                    # The path is that of this process, so nothing needs `site`.
                    [path, "-I", "-S", "-c", _PROGRAM, *about, *sys.path],
                    # The process must have only one thread, since it forks.
                    {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    stdin=theirs.fileno(),
                    stderr=self._stderr,
                )
            except OSError as error:
                self.forget()
                raise _not_started(error) from None

    @property
    def number(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self._process.has_ended

    @property
    def output(self) -> str:
        """The last of what it has written to its standard error."""
        return last_text(self._stderr)

    def take(self, theirs: _socket.socket, kind: bytes) -> bool:
        """Passes the other end of a job to the process.

        Args:
            theirs: the other end of the job's socket.
            kind: when the job is done, `NOW` or `LEFT`.

        Returns:
            False if the process takes no jobs any more.
        """
        try:
            self._control.sendmsg([kind], rights([theirs.fileno()]), _socket.MSG_NOSIGNAL)
        except OSError:
            # The process is about to end, if it has not ended yet.
            self._process.wait(1.0)
            return False
        return True

    def forget(self) -> None:
        """Closes what this process has of it, without waiting for its end."""
        self._control.close()
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1

    def kill(self) -> None:
        """Kills the process. The kernel ends those that it has forked with it."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process, and all processes that it has forked."""
        self.forget()
        if not self._process.wait(1.0):
            self._process.kill()
            self._process.wait()


def _not_started(error: OSError) -> OpFailed:
    return OpFailed(f"no compiler process can be started: {error}{descriptor_advice(error)}")
