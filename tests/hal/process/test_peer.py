"""The credentials of the other end of a socket, which the kernel vouches for."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from neurald.hal.process.peer import peer_of

_CLIENT = """
import os, socket, sys
os.setgroups([1201, 1202])
os.setgid(1200)
os.setuid(1100)
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
print(os.getpid(), flush=True)
client.recv(1)
"""


def test_this_process() -> None:
    one, other = socket.socketpair()
    with one, other:
        peer = peer_of(one)
    assert (peer.process, peer.user) == (os.getpid(), os.geteuid())
    assert os.getegid() in peer.groups
    assert peer.groups >= set(os.getgroups())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_with_groups() -> None:
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        path = Path(name) / "s"
        listener.bind(str(path))
        path.parent.chmod(0o755)
        path.chmod(0o666)
        listener.listen()
        client = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, str(path)], stdout=subprocess.PIPE, text=True
        )
        connection, _ = listener.accept()
        with connection:
            peer = peer_of(connection)
        out, _ = client.communicate(timeout=120)
    assert (peer.process, peer.user) == (int(out), 1100)
    assert peer.groups == {1200, 1201, 1202}


def test_a_socket_without_another_end_has_no_user_that_exists() -> None:
    with socket.socket(socket.AF_UNIX) as unconnected:
        assert peer_of(unconnected).user == 0xFFFF_FFFF
