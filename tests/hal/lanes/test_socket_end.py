"""Packets with descriptors."""

import array
import os
import socket

import pytest
from support.daemon.open_files import open_files
from support.waiting import wait_until

from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import MAX_PACKET_BYTES


def test_packets_arrive_with_their_descriptors() -> None:
    mine, theirs = socket_end.pair()
    with mine, theirs:
        read, write = os.pipe()
        socket_end.send(mine, b"one", write)
        socket_end.send(mine, b"two")
        packet, descriptor = socket_end.receive(theirs)
        assert packet == b"one"
        assert descriptor is not None
        os.write(descriptor, b"x")
        assert os.read(read, 1) == b"x"
        for each in (read, write, descriptor):
            os.close(each)
        assert socket_end.receive(theirs) == (b"two", None)
        mine.close()
        assert socket_end.receive(theirs) == (b"", None)


def test_what_breaks_the_rules_ends_the_lane() -> None:
    mine, theirs = socket_end.pair()
    with mine, theirs:
        mine.send(bytes(MAX_PACKET_BYTES + 1))
        with pytest.raises(ConnectionAbortedError):
            socket_end.receive(theirs)
        before = open_files()
        mine.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
        with pytest.raises(ConnectionAbortedError):
            socket_end.receive(theirs)
        wait_until(lambda: not open_files() - before)
