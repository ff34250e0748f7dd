"""Forks processes of a driver from one that has loaded all modules that they share.

A new process takes most of its start for loading modules; one that is forked has them at once. The
service manager asks for each over a socket, and passes what will be its standard input, its
standard error and its breadcrumbs.

The server itself runs no code of drivers, except of those that are part of neurald, and no threads
of Python: each process enters its sandbox after it was forked. It is forked twice, so that it
becomes a child of the nearest ancestor that takes orphans, which is the service manager.
"""

import contextlib
import gc
import importlib
import os
import socket
import threading
from typing import Final

from neurald.hal.crashes.breadcrumbs import VARIABLE as BREADCRUMBS_VARIABLE
from neurald.hal.errors import BadData
from neurald.hal.registry import BUILT_IN, load_driver

#: What the server sends once it can fork, and what each request for a process is.
FORKS: Final = b"forks"
REQUEST: Final = b"fork"
#: An answer is the id of the process, or else the reason why there is none.
MAX_ANSWER_BYTES: Final = 500
_DESCRIPTORS: Final = 3
#: What gRPC and Python import at the first use.
_LOADED_LATE: Final = ("grpc._interceptor", "grpc._server", "encodings.ascii")


def is_forked(driver: str) -> bool:
    """Serves requests on standard input; returns True in each process that is forked.

    Returns False in the server, once nobody can send requests any more, or if it cannot fork.

    Args:
        driver: the driver that the processes will serve.

    Raises:
        BadData: standard input is not such a socket.
    """
    try:
        connection = socket.socket(fileno=0)
    except OSError as error:
        raise BadData(
            "--fork is for the service manager (`neurald serve`), which sends requests to standard input; "
            f"that is not a socket: {error.strerror}"
        ) from None
    _load(driver)
    # The pages of what is loaded stay shared as long as no collection writes to them.
    gc.collect()
    gc.freeze()
    if threading.active_count() > 1:
        _answer(connection, b"it has threads")
        return False
    _answer(connection, FORKS)
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, len(REQUEST), _DESCRIPTORS)
        for descriptor in descriptors:
            # `recv_fds` ignores flags, so MSG_CMSG_CLOEXEC would have no effect.
            os.set_inheritable(descriptor, False)
        if request != REQUEST or len(descriptors) != _DESCRIPTORS:
            return False
        try:
            process = _fork(descriptors)
        except OSError as error:
            process = os.strerror(error.errno or 0).encode()
        if process is None:
            connection.detach()  # its number is that of the new standard input
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        _answer(connection, process)


def _load(driver: str) -> None:
    """Imports what a daemon needs, and a driver that is part of neurald."""
    import neurald.hal.process.own_program
    import neurald.service.daemon.admitted_users
    import neurald.service.daemon.running
    import neurald.service.daemon.start_signal  # noqa: F401

    for name in _LOADED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if driver in BUILT_IN:
        with contextlib.suppress(Exception):  # creating the device reports it
            load_driver(driver)


def _answer(connection: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.send(answer)


def _fork(descriptors: list[int]) -> bytes | None:
    """Forks a process; returns its id, or the reason why there is none. Returns None in it.

    Raises:
        OSError: this process cannot fork.
    """
    reading, writing = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if between:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        # Only after its end is the process the child of somebody else.
        os.waitpid(between, 0)
        return said or b"it ended at once"
    try:
        os.close(reading)
        if os.fork():
            os._exit(os.EX_OK)
        os.setsid()
        stdin, stderr, breadcrumbs = descriptors
        os.dup2(stdin, 0)
        os.dup2(stderr, 2)
        os.close(stdin)
        os.close(stderr)
        os.environ[BREADCRUMBS_VARIABLE] = str(breadcrumbs)
        os.write(writing, str(os.getpid()).encode())
        os.close(writing)
    except BaseException as error:
        # Nothing else of the server may run in this process, even if the server has ended.
        try:
            os.write(writing, f"it could not be forked: {error}".encode()[:MAX_ANSWER_BYTES])
        finally:
            os._exit(os.EX_OSERR)
    return None
