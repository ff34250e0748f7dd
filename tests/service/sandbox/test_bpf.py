"""Compares the verdicts of filters, by an interpreter of BPF programs, with the intended ones."""

import errno
import socket
import struct

import pytest
from support.sweeps import sweep

from neurald.service.sandbox import seccomp
from neurald.service.sandbox.bpf import ALLOW, fail, if_any_bit, if_equal, load_argument, program
from neurald.service.sandbox.system_calls import LAST_KNOWN_NUMBER, MACHINES

pytestmark = pytest.mark.quick

_ALLOWED, _KILLED, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def verdict(code: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = 7) -> int:
    """Returns the verdict of the kernel for a filter; see `linux/filter.h`."""
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("=HBBI", code))
    accumulator = position = 0
    while True:
        kind, then, otherwise, value = instructions[position]
        position += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == 0x54:
            accumulator &= value
        elif kind == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x25: accumulator > value,
                0x45: accumulator & value != 0,
            }[kind]
            position += then if holds else otherwise


def test_a_program() -> None:
    flags = load_argument(1, if_any_bit(6, fail(1), if_equal(8, fail(2), ALLOW)), mask=0xFF)
    code = program(7, 100, fail(38), [(5, fail(13)), (6, flags), (7, load_argument(0, flags, upper=True))])
    assert verdict(code, 5) == _ERROR | 13
    assert verdict(code, 4) == verdict(code, 100) == _ALLOWED
    assert verdict(code, 101) == verdict(code, 0x40000005) == _ERROR | 38
    assert verdict(code, 5, architecture=8) == verdict(code, 4, architecture=8) == _KILLED
    assert verdict(code, 6, (0, 2)) == verdict(code, 6, (0, 12)) == _ERROR | 1
    assert verdict(code, 6, (0, 8)) == verdict(code, 6, (0, 0x108)) == _ERROR | 2
    assert verdict(code, 6, (6, 1)) == _ALLOWED


@sweep("machine", MACHINES)
def test_every_machine_has_every_call_or_does_not_know_it(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On other machine types the filters cannot be run, but they must be built correctly."""
    numbers = MACHINES[machine].numbers
    assert max(numbers.values()) <= LAST_KNOWN_NUMBER
    assert len(set(numbers.values())) == len(numbers)
    only_x86 = {"chmod", "chown", "lchown", "modify_ldt", "iopl", "ioperm", "open", "creat", "mknod"}
    assert set(MACHINES["x86_64"].numbers) - set(numbers) in (set(), only_x86)
    installed: list[bytes] = []

    def record(number: int, operation: int, flags: int, described: bytes) -> int:
        import ctypes

        count, where = struct.unpack("@HP", described)
        installed.append(ctypes.string_at(where, 8 * count))
        return 0

    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(seccomp, "system_call", record)
    seccomp.forbid(tcp=True)
    seccomp.forbid_connecting()
    first, second = installed
    architecture = MACHINES[machine].architecture

    def refused(code: bytes, name: str, *arguments: int) -> int:
        found = verdict(code, numbers[name], arguments, architecture)
        return 0 if found == _ALLOWED else found & ~_ERROR

    for name in ("ptrace", "mount", "bpf", "keyctl", "finit_module", "perf_event_open", "unshare", "setns"):
        assert refused(first, name) == errno.EPERM, name
    for name in ("clone3", "io_uring_setup", "openat2"):
        assert refused(first, name) == errno.ENOSYS, name
    assert refused(first, "clone", 0x10000000) == errno.EPERM
    assert refused(first, "clone", 0x003D0F00) == 0  # the flags with which threads are started
    assert refused(first, "openat", 0, 0, 0o101, 0o4755) == errno.EPERM
    assert refused(first, "openat", 0, 0, 0, 0o4755) == 0
    assert refused(first, "fchmodat", 0, 0, 0o2755) == errno.EPERM
    stream, datagram = socket.SOCK_STREAM | 0o2000000, socket.SOCK_DGRAM
    assert refused(first, "socket", socket.AF_UNIX, stream) == 0
    assert refused(first, "socket", socket.AF_UNIX, datagram) == errno.EACCES
    assert refused(first, "socket", socket.AF_INET6, stream, 6) == 0
    assert refused(first, "socket", socket.AF_INET, stream, 262) == errno.EACCES  # MPTCP
    assert refused(first, "socket", socket.AF_INET, datagram) == errno.EACCES
    assert refused(first, "socket", socket.AF_NETLINK, stream) == errno.EACCES
    assert refused(first, "connect") == 0
    assert refused(second, "connect") == errno.EACCES
    assert refused(second, "sendto", 3, 0, 0, 0, 1 << 32) == errno.EACCES
    assert refused(second, "sendto", 3, 0, 0, 0, 0) == 0
    assert refused(second, "sendmsg", 3, 0, 0x20000000) == errno.EACCES
    assert refused(second, "sendmsg", 3, 0, 0x4000) == 0
