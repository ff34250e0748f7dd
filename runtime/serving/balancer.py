"""Chooses the healthy service with a model that has the fewest calls under way.

A service that refuses, or whose process of the model dies, is left alone for a while, and then
tried again by a single call. Of several that are equally busy the one that was chosen least
recently is next.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadData, BadState, DeadObject, UnavailableDevice, copied
from neurald.hal.lanes.opening import Opened
from neurald.runtime.serving.client_lane import ClientLane

#: How long a service is left alone after a failure: at first, and at most.
_PAUSE_S: Final = 0.02
_MAX_PAUSE_S: Final = 1.0


class Endpoint:
    """A service that has the model.

    Attributes:
        path: the path of its socket.
        idle: lanes on which no call is under way.
        running: how many calls are under way.
        chosen: number of the latest choice, of all endpoints together.
        tried_again_s: when it may be chosen after a failure, on the clock of `time.monotonic`.
        pause_s: how long it is left alone after the next failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.idle: list[ClientLane] = []
        self.running = 0
        self.chosen = 0
        self.tried_again_s = 0.0
        self.pause_s = _PAUSE_S


class Balancer:
    """Gives out lanes of several services. Thread-safe.

    Args:
        paths: the paths of the sockets of the services.
        name, version: the name and version of the model.

    Attributes:
        described: what the first service that answered says of the model.

    Raises:
        Error: no service has the model; see `take`.
    """

    def __init__(self, paths: Sequence[Path], name: str, version: str) -> None:
        self._endpoints = [Endpoint(path) for path in paths]
        self._name = name
        self._version = version
        self._lock = threading.Lock()
        self._choices = 0
        self._is_closed = False
        self.described: Opened | None = None

    @property
    def size(self) -> int:
        """The number of services."""
        return len(self._endpoints)

    def take(self, patience_s: float) -> tuple[Endpoint, ClientLane]:
        """Returns a lane, and the service that it belongs to.

        Args:
            patience_s: how long to wait for a model that is not ready anywhere.

        Raises:
            BadState: the balancer is closed.
            UnavailableDevice: no service answers.
            DeadObject: the model is not ready anywhere for long.
            Error: a service refuses.
        """
        end_s = time.monotonic() + patience_s
        while True:
            failure: DeadObject | UnavailableDevice | None = None
            for endpoint in self._order():
                lane = self._idle_lane(endpoint)
                if lane is not None:
                    return endpoint, lane
                try:
                    return endpoint, self._opened(endpoint)
                except (DeadObject, UnavailableDevice) as error:
                    self._failed(endpoint)
                    if failure is None or isinstance(error, DeadObject):
                        failure = error.with_traceback(None)
                except BaseException:
                    self._ended(endpoint)
                    raise
            assert failure is not None  # noqa: S101 - there is an endpoint
            if isinstance(failure, UnavailableDevice) or time.monotonic() > end_s:
                raise copied(failure)
            time.sleep(_PAUSE_S)

    def give_back(self, endpoint: Endpoint, lane: ClientLane) -> None:
        """Takes back a lane on which a call has ended well."""
        with self._lock:
            endpoint.running -= 1
            endpoint.pause_s = _PAUSE_S
            if not self._is_closed:
                endpoint.idle.append(lane)
                return
        lane.close()

    def drop(self, endpoint: Endpoint, lane: ClientLane, *, has_died: bool) -> None:
        """Closes a lane that cannot be used again.

        Args:
            endpoint: its service.
            lane: the lane.
            has_died: whether the model's process is gone, so that others are better for now.
        """
        lane.close()
        if not has_died:
            self._ended(endpoint)
            return
        self._failed(endpoint)
        # The other lanes probably lead to the same process; each would cost a call an attempt.
        with self._lock:
            dead, endpoint.idle = endpoint.idle, []
        for each in dead:
            each.close()

    def close(self) -> None:
        """Closes all lanes; `take` fails from now on."""
        with self._lock:
            self._is_closed = True
            idle = [lane for endpoint in self._endpoints for lane in endpoint.idle]
            for endpoint in self._endpoints:
                endpoint.idle = []
        for lane in idle:
            lane.close()

    def _order(self) -> list[Endpoint]:
        """Returns the services in the order in which they are tried: first those that are well."""
        now_s = time.monotonic()
        return sorted(
            self._endpoints, key=lambda each: (each.tried_again_s > now_s, each.running, each.chosen)
        )

    def _idle_lane(self, endpoint: Endpoint) -> ClientLane | None:
        """Notes that a service was chosen, and returns one of its idle lanes, if there is one."""
        with self._lock:
            if self._is_closed:
                raise BadState(f"the connection to the model {self._name} is closed; connect again")
            self._choices += 1
            endpoint.chosen = self._choices
            endpoint.running += 1
            return endpoint.idle.pop() if endpoint.idle else None

    def _opened(self, endpoint: Endpoint) -> ClientLane:
        lane = ClientLane(endpoint.path, self._name, self._version)
        opened, known = lane.opened, self.described
        if known is None:
            self.described = opened
        elif (opened.inputs, opened.outputs) != (known.inputs, known.outputs):
            lane.close()
            raise BadData(
                f"the model {self._name} of the service at {endpoint.path} has other inputs or outputs than that "
                "of the other services"
            )
        return lane

    def _ended(self, endpoint: Endpoint) -> None:
        with self._lock:
            endpoint.running -= 1

    def _failed(self, endpoint: Endpoint) -> None:
        """Leaves a service alone for a while, longer after each failure in a row."""
        with self._lock:
            endpoint.running -= 1
            endpoint.tried_again_s = time.monotonic() + endpoint.pause_s
            endpoint.pause_s = min(_MAX_PAUSE_S, 2 * endpoint.pause_s)
