"""Ports of this host for programs that are told where to listen."""

import random
import socket
from pathlib import Path


def free_port() -> int:
    """Returns a port that nobody uses, and that the kernel gives to nobody by itself.

    Other tests connect, and listen at ports of the kernel's choice, all the time; a port that the
    kernel has chosen could be theirs before a program listens there.
    """
    lowest, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split())
    # From a state of its own, since tests set that of the module.
    for port in random.SystemRandom().sample(range(10_000, lowest), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
