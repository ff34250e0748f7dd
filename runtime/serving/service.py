"""`neurald.connect_service`: the models of an execution service on this host, as functions."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, overload

import numpy as np

from neurald.hal.api_arguments import (
    file_path,
    instance,
    items,
    read_array,
    shown,
    shown_reason,
    waiting_time,
)
from neurald.hal.errors import BadData, DeadObject, Error, UnavailableDevice, WrongType, copied
from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.lanes.packets import BYTES, Receipt, type_named
from neurald.hal.model.masked_elements import require_unmasked
from neurald.hal.model.strings import as_strings
from neurald.hal.process.activation import SERVICE_SOCKET
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.wording import counted
from neurald.runtime.function.conversion import as_array
from neurald.runtime.function.tensor_info import TensorInfo
from neurald.runtime.serving.balancer import Balancer
from neurald.runtime.serving.client_lane import require_service

#: How long a call waits for a model that is not ready, such as one whose process has died, and for
#: how long it does before it is made again.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.02
#: How many processes a call is given to, each of which dies.
_MAX_ATTEMPTS: Final = 3

Array = np.ndarray[Any, np.dtype[Any]]


class ServedModel:
    """A model that an execution service on this host runs. Thread-safe. `Service.model` creates it.

    It is called like a function, see `CompiledFunction`. Arrays are passed in shared memory to the
    model's process. If that dies, the call is made again by the next one.

    Args:
        paths: the paths of the sockets of the services that have it.
        name, version: the name and version of the model.
    """

    def __init__(self, paths: Sequence[Path], name: str, version: str) -> None:
        self._paths = tuple(paths)
        self._name = name
        self._version = version
        self._balancer = Balancer(paths, name, version)
        self._latest = threading.local()
        endpoint, lane = self._balancer.take(_PATIENCE_S)
        self._described = lane.opened
        self._balancer.give_back(endpoint, lane)

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(each.name for each in several)
            for several in (self._described.inputs, self._described.outputs)
        )
        return f"<ServedModel {self._name}, version {self.version}: ({inputs}) → ({outputs})>"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def version(self) -> str:
        """The version of the model."""
        return self._described.version

    @property
    def inputs_info(self) -> tuple[TensorInfo, ...]:
        """The inputs, in order."""
        return tuple(map(_info, self._described.inputs))

    @property
    def outputs_info(self) -> tuple[TensorInfo, ...]:
        """The outputs, in order."""
        return tuple(map(_info, self._described.outputs))

    @property
    def last_receipt(self) -> Receipt | None:
        """Tells where the latest call of this thread ran, and how long; None before the first."""
        return getattr(self._latest, "receipt", None)

    @overload
    def __call__(self, named: Mapping[str, Any], /) -> dict[str, Array]: ...

    @overload
    def __call__(self, *arrays: Any) -> list[Array]: ...

    @overload
    def __call__(self, **named: Any) -> dict[str, Array]: ...

    def __call__(self, *arrays: Any, **named: Any) -> list[Array] | dict[str, Array]:
        """Computes the outputs.

        Args:
            arrays: one for each input, in order; or one mapping from names to arrays.
            named: one array for each input, by name.

        Returns:
            A list of arrays; of named inputs a dictionary.

        Raises:
            BadData: inputs are missing, unknown, or of a wrong type or shape.
            BadState: the model is closed.
            DeadObject: several processes died of this call, or the model is not ready for long.
            Error: the run failed.
        """
        if named or (len(arrays) == 1 and isinstance(arrays[0], Mapping)):
            given = named or arrays[0]
            names = [each.name for each in self._described.inputs]
            if set(given) != set(names):
                raise BadData(f"{self._name} has the inputs {names}; {sorted(map(str, given))} are given")
            results = self.run([given[name] for name in names])
            return dict(zip((each.name for each in self._described.outputs), results, strict=True))
        return self.run(arrays)

    def run(self, arrays: Any, *, timeout: float | None = None) -> list[Array]:
        """Computes the outputs of arrays in the order of the inputs.

        Args:
            arrays: one for each input.
            timeout: how long the run may take, in seconds; None for no limit.

        Raises:
            BadData: the timeout is negative.
            MissedDeadlineTransient: the time is over; the run is stopped.
            Error: see `__call__`.
        """
        limit_s = waiting_time(timeout)
        given = items(arrays, "the inputs of a run", "a sequence of arrays")
        if len(given) != len(self._described.inputs):
            raise BadData(
                f"{counted(len(given), 'input')} given; {self._name} has {len(self._described.inputs)}"
            )
        converted = [
            _converted(each, described) for each, described in zip(given, self._described.inputs, strict=True)
        ]
        attempts = _MAX_ATTEMPTS * self._balancer.size
        for attempt in range(1, attempts + 1):
            endpoint, lane = self._balancer.take(_PATIENCE_S)
            try:
                results, self._latest.receipt = lane.run(converted, limit_s)
            except DeadObject:
                self._balancer.drop(endpoint, lane, has_died=True)
                if attempt == attempts:
                    raise
                if self._balancer.size == 1:
                    # A driver that the model needs is started again meanwhile.
                    time.sleep(_PAUSE_S * attempt)
                continue
            except BaseException as error:
                # A lane on which an answer is still due cannot be used again.
                if isinstance(error, Error) and not isinstance(error, TimeoutError) and limit_s is None:
                    self._balancer.give_back(endpoint, lane)
                else:
                    self._balancer.drop(endpoint, lane, has_died=False)
                raise
            self._balancer.give_back(endpoint, lane)
            return results
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Closes the connection; further calls fail."""
        self._balancer.close()

    def __reduce__(self) -> tuple[type[Self], tuple[Sequence[Path], str, str]]:
        """Pickles where the model is; a copy has connections of its own."""
        return type(self), (self._paths, self._name, self._version)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Service:
    """An execution service on this host, or several that have the same models. Thread-safe.

    `neurald.connect_service` creates it.

    Args:
        paths: the paths of the sockets.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)

    def __repr__(self) -> str:
        return f"<Service at {', '.join(map(str, self._paths))}>"

    def model(self, name: str, version: str | int = "") -> ServedModel:
        """Returns a model of the service as a function.

        Args:
            name: the name of the model.
            version: the version of the model; the newest by default.

        Raises:
            BadData: there is no such model.
            UnavailableDevice: no service runs.
            DeadObject: the model is not ready for long.
        """
        return ServedModel(self._paths, instance(name, str, "the name of the model"), str(version))


def connect_service(path: str | Path | Sequence[str | Path] | None = None) -> Service:
    """Returns the execution service of this user, which `neurald serve --grpc` or `--http` starts.

    Its models run in processes of their own, and tensors are passed to them in shared memory:

        classify = nd.connect_service().model("digits")
        (scores,) = classify(image)

    Args:
        path: the path of another service's socket; or several, which have the same models. A call
            is given to the service with the fewest calls under way, and again to another one if the
            process of the model dies.

    Raises:
        BadData: there is no path, or one is not valid.
        UnavailableDevice: no service answers at any of the paths.
    """
    paths = _paths(path)
    failures: list[UnavailableDevice] = []
    for each in paths:
        try:
            require_service(each)
        except UnavailableDevice as error:
            failures.append(error.with_traceback(None))
    # Those that do not run are left alone, and tried again later.
    if len(failures) == len(paths):
        raise copied(failures[0])
    return Service(paths)


def _paths(path: str | Path | Sequence[str | Path] | None) -> tuple[Path, ...]:
    if path is None:
        return (runtime_directory() / SERVICE_SOCKET,)
    if isinstance(path, str | Path):
        return (file_path(path, "the path of the service"),)
    several = items(path, "the path of the service", "a path or a sequence of paths")
    paths = tuple(file_path(each, "the path of a service") for each in several)
    if not paths:
        raise BadData("no path of a service is given; at least one is expected")
    return paths


def _converted(value: Any, described: TensorDescription) -> Array:
    what = f"the input {described.name}"
    value = as_array(value)
    is_typed = isinstance(value, np.ndarray | np.generic)
    is_text = described.kind == BYTES
    expected = np.dtype(object) if is_text else type_named(described.kind)
    try:
        array = read_array(value, None if is_typed else expected)
    except TypeError:
        raise WrongType(f"{what} is {shown(value)}; an array of {expected} is expected") from None
    except (ValueError, OverflowError) as error:
        raise BadData(f"{what} cannot be stored as {expected}: {shown_reason(error)}") from None
    if array is not value:
        require_unmasked(value, what)
    if is_text:
        return as_strings(array, what)
    if array.dtype != expected:
        raise BadData(f"{what} is {array.dtype}; {expected} is expected")
    return array


def _info(described: TensorDescription) -> TensorInfo:
    shape = described.shape
    return TensorInfo(
        name=described.name,
        shape=None if shape is None else tuple(None if each < 0 else each for each in shape),
        dtype=np.dtype(object) if described.kind == BYTES else type_named(described.kind),
        scale=described.scale,
        zero_point=described.zero_point,
    )
