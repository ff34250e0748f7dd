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


def filters_of(monkeypatch: pytest.MonkeyPatch, machine: str) -> list[bytes]:
    """Returns the list to which filters are added that are installed from now on."""
    installed: list[bytes] = []

    def record(number: int, operation: int, flags: int, described: bytes) -> int:
        import ctypes

        assert (number, operation, flags) == (MACHINES[machine].numbers["seccomp"], 1, 1)
        count, where = struct.unpack("@HP", described)
        installed.append(ctypes.string_at(where, 8 * count))
        return 0

    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(seccomp, "system_call", record)
    return installed


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
    installed = filters_of(monkeypatch, machine)
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


#: Calls with arguments, and the error with which they fail; 0 if they are allowed.
_VERDICTS = (
    # Modes that would let others run a file as its owner.
    *(
        (name, (*(0,) * position, mode), error)
        for name, position in (
            *(("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)),
            *(("creat", 1), ("mknod", 1), ("mknodat", 2)),
        )
        for mode, error in ((0o4755, errno.EPERM), (0o2755, errno.EPERM), (0o1777, 0))
    ),
    # Modes count only where a file is made: O_CREAT, or O_TMPFILE, which has one more bit.
    *(
        (name, (*(0,) * position, flags, mode), error)
        for name, position in (("open", 1), ("openat", 2))
        for flags, mode, error in (
            (0o101, 0o4755, errno.EPERM),
            (0o20200002, 0o2755, errno.EPERM),
            (0o101, 0o755, 0),
            (0o2, 0o4755, 0),
        )
    ),
    # TIOCSTI and TIOCLINUX inject input into terminals; TCGETS and TIOCGWINSZ read settings.
    *(("ioctl", (0, request), errno.EPERM) for request in (0x5412, 0x541C)),
    *(("ioctl", (0, request), 0) for request in (0x5401, 0x5413)),
    ("personality", (0xFFFF_FFFF,), 0),
    ("personality", (0x0040_0000,), errno.EPERM),
    *(("clone", (1 << bit,), errno.EPERM) for bit in (17, 25, 26, 27, 28, 29, 30)),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_STREAM), 0),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_SEQPACKET | 0o2000000), 0),
    ("socketpair", (socket.AF_UNIX, socket.SOCK_DGRAM), errno.EACCES),
    ("socket", (socket.AF_UNIX, socket.SOCK_SEQPACKET), 0),
    *(("socket", (socket.AF_INET, socket.SOCK_STREAM, protocol), 0) for protocol in (0, 6)),
    ("socket", (socket.AF_INET6, socket.SOCK_RAW, 6), errno.EACCES),
)


@sweep("machine", MACHINES)
def test_calls_are_judged_by_their_arguments(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, numbers = filters_of(monkeypatch, machine), MACHINES[machine].numbers
    seccomp.forbid(tcp=True)
    for name, arguments, error in _VERDICTS:
        if name in numbers:
            found = verdict(installed[0], numbers[name], arguments, MACHINES[machine].architecture)
            assert found == (_ERROR | error if error else _ALLOWED), (name, arguments)


def test_without_tcp_there_are_only_local_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    installed, machine = filters_of(monkeypatch, "x86_64"), MACHINES["x86_64"]
    seccomp.forbid(tcp=False)
    seccomp.forbid_connecting()
    number = machine.numbers["socket"]
    for family, expected in ((socket.AF_UNIX, _ALLOWED), (socket.AF_INET, _ERROR | errno.EACCES)):
        assert verdict(installed[0], number, (family, socket.SOCK_STREAM), machine.architecture) == expected
    for flags, expected in ((0x2000_0000, _ERROR | errno.EACCES), (0x4000, _ALLOWED)):
        arguments = 3, 0, 0, flags
        number = machine.numbers["sendmmsg"]
        assert verdict(installed[1], number, arguments, machine.architecture) == expected


def test_a_thread_with_a_filter_of_its_own_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(seccomp, "system_call", lambda *_: 1234)
    with pytest.raises(OSError, match="thread 1234 has a different filter") as caught:
        seccomp.forbid(tcp=True)
    assert caught.value.errno == errno.EBUSY


def test_whether_the_kernel_filters_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def answer(*arguments: object) -> int:
        asked.append(arguments)
        if len(asked) == 2:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return 0

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(seccomp, "system_call", answer)
    assert [seccomp.is_available(), seccomp.is_available()] == [True, False]
    # SECCOMP_GET_ACTION_AVAIL of SECCOMP_RET_ERRNO.
    assert asked[0] == (MACHINES["x86_64"].numbers["seccomp"], 2, 0, struct.pack("=I", _ERROR))
    monkeypatch.setattr("platform.machine", lambda: "unheard-of")
    assert not seccomp.is_available()
    assert len(asked) == 2
