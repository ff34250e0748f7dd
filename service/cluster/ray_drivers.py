"""Driver daemons on the nodes of a Ray cluster, each in an actor that supervises it.

Ray places the actors and starts them again, also on other nodes, and the actors start their daemons
again. Ray carries no requests: clients connect to the addresses of the daemons.
"""

import logging
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from neurald.hal.errors import MissedDeadlineTransient, UnavailableDevice
from neurald.hal.process.own_program import own_program
from neurald.hal.process.threads.checked_thread import CheckedThread

logger = logging.getLogger(__name__)

#: How long a daemon has to begin to serve.
_START_S: Final = 60.0
_LOOK_S: Final = 0.05
_CONNECT_S: Final = 1.0
#: How long to wait before a daemon is started again, which doubles each time up to the limit.
_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 10.0


class RayDrivers:
    """Keeps driver daemons running on all nodes of the Ray cluster of this process.

    The daemons end with the block, and with this process.

    Args:
        driver: as `neurald driver` takes it.
        count: how many daemons; Ray spreads them over the nodes.
        tls: a folder of `neurald cert issue` that every node has, with the certificate of a daemon
            that names the addresses of all nodes. Without, daemons listen on the loopback address
            of their nodes, for clients there.
        options: the options of the actors, such as `num_cpus` or `resources`; see Ray's
            `ActorClass.options`.

    Raises:
        UnavailableDevice: Ray is not installed.
    """

    def __init__(
        self,
        driver: str = "cpu",
        *,
        count: int = 1,
        tls: str | Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise UnavailableDevice(
                "Ray is not installed; install it with: pip install 'neurald[ray]'"
            ) from None
        self._ray = ray
        chosen = {"scheduling_strategy": "SPREAD", "max_restarts": -1, **(options or {})}
        actor = ray.remote(DriverActor).options(**chosen)
        self._actors = [actor.remote(driver, None if tls is None else str(tls)) for _ in range(count)]

    def addresses(self, timeout: float = _START_S) -> list[str]:
        """Returns the addresses at which the daemons serve now, for `neurald.connect`.

        Args:
            timeout: how long to wait for all, in seconds.

        Raises:
            MissedDeadlineTransient: one does not serve within that time.
        """
        end_s = time.monotonic() + timeout
        return [self._ask(actor, "address", end_s) for actor in self._actors]

    def nodes(self, timeout: float = _START_S) -> list[str]:
        """Returns the ids of the nodes on which the daemons run, in the order of `addresses`."""
        end_s = time.monotonic() + timeout
        return [self._ask(actor, "node", end_s) for actor in self._actors]

    def _ask(self, actor: Any, method: str, end_s: float) -> str:
        """Asks an actor, and again after Ray has started it again."""
        while (left_s := end_s - time.monotonic()) > 0:
            try:
                answer: str = self._ray.get(getattr(actor, method).remote(), timeout=left_s)
            except self._ray.exceptions.GetTimeoutError:
                break
            except self._ray.exceptions.RayActorError:
                time.sleep(_LOOK_S)
            else:
                if answer:
                    return answer
                time.sleep(_LOOK_S)
        raise MissedDeadlineTransient(
            "a driver daemon in the Ray cluster did not serve in time; "
            "the log of its actor says why, or the cluster has no room for it yet"
        )

    def close(self) -> None:
        """Ends the daemons."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DriverActor:
    """Keeps one driver daemon running on this node, always at the same address. A Ray actor.

    Args:
        driver: as `neurald driver` takes it.
        tls: the folder of a certificate; None for clients on this node only.
    """

    def __init__(self, driver: str, tls: str | None) -> None:
        host = "127.0.0.1"
        if tls is not None:
            import ray

            host = ray.util.get_node_ip_address()
        with socket.create_server((host, 0)) as free:
            self._address = f"{host}:{free.getsockname()[1]}"
        # Not at the socket of the driver, which another daemon of the node may have.
        certified = () if tls is None else ("--tls", tls)
        self._command = [
            *own_program("neurald", "driver", driver, "--listen", self._address, *certified),
            # The daemon must also end if this process is killed.
            *("--until-exit-of", str(os.getpid())),
        ]
        CheckedThread(target=self._supervise, name="neurald driver", daemon=True).start()

    def address(self) -> str:
        """Returns the address if the daemon listens there now, and else an empty text."""
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        except OSError:
            return ""
        return self._address

    def node(self) -> str:
        """Returns the id of the node."""
        import ray

        found: str = ray.get_runtime_context().get_node_id()
        return found

    def _supervise(self) -> None:
        pause_s = _PAUSE_S
        while True:
            began_s = time.monotonic()
            try:
                subprocess.run(self._command, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - constant
            except OSError as error:  # such as too little memory, which may pass
                logger.warning("the driver daemon cannot be started now: %s", error)
            if time.monotonic() - began_s > _MAX_PAUSE_S:
                pause_s = _PAUSE_S
            time.sleep(pause_s)
            pause_s = min(_MAX_PAUSE_S, 2 * pause_s)
