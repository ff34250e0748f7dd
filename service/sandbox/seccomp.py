"""seccomp: restricts the system calls of a process.

The filter refuses calls that no driver needs and that affect things outside of the process: other
processes, kernel modules, mounts, keys, tracing, namespaces, sockets to other hosts, and
set-user-ID files. An allowlist is not practical, since it would have to follow each release of
Python, LLVM and every vendor's library. However, system calls that this file does not know fail as
they do on an older kernel.
"""

import ctypes
import errno
import os
import platform
import socket
import stat
import struct
from collections.abc import Iterable

from neurald.service.sandbox.bpf import ALLOW, Code, fail, if_any_bit, if_equal, load_argument, program
from neurald.service.sandbox.kernel import system_call
from neurald.service.sandbox.system_calls import LAST_KNOWN_NUMBER, MACHINES

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_ALL_THREADS = 1
_RETURN_ERROR = 0x0005_0000

_FORBIDDEN = (
    # Other processes.
    *(
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
        "pidfd_getfd",
    ),
    # File systems, and access to files other than by path.
    *(
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "open_tree_attr",
        "move_mount",
        "mount_setattr",
    ),
    *("fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at", "fanotify_init"),
    *("swapon", "swapoff", "quotactl", "quotactl_fd", "acct"),
    # Calls that Landlock does not check.
    *("chown", "lchown", "fchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr"),
    # Code in the kernel.
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "bpf", "reboot"),
    # Rarely used parts of the kernel with many past vulnerabilities.
    *("perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "modify_ldt", "iopl", "ioperm"),
    # Other namespaces.
    *("unshare", "setns"),
    # Global state of the machine.
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "syslog"),
)
#: Calls whose effects seccomp cannot see. They fail as if the kernel did not have them, so that
#: programs use older calls.
_OPAQUE = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2")

_NAMESPACES = 0x7E02_0000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET
_SET_ID = stat.S_ISUID | stat.S_ISGID
_MAKES_FILES = os.O_CREAT | 0o20000000  # __O_TMPFILE
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX inject terminal input
_QUERY_PERSONALITY = 0xFFFF_FFFF
_TYPE_MASK = 0xF
_MSG_FASTOPEN = 0x2000_0000

_REFUSED = fail(errno.EPERM)
_UNKNOWN = fail(errno.ENOSYS)
_NOT_PERMITTED = fail(errno.EACCES)


def is_available() -> bool:
    """Returns True if this kernel supports seccomp and the machine type is known."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    try:
        action = struct.pack("=I", _RETURN_ERROR)
        return system_call(machine.numbers["seccomp"], _GET_ACTION_AVAIL, 0, action) == 0
    except OSError:
        return False


def forbid(*, tcp: bool) -> None:
    """Forbids calls that no driver needs, for all threads and children of this process.

    PR_SET_NO_NEW_PRIVS must be set.

    Args:
        tcp: whether TCP sockets may be created.

    Raises:
        OSError: the kernel refuses.
    """
    rules = dict.fromkeys(_FORBIDDEN, _REFUSED) | dict.fromkeys(_OPAQUE, _UNKNOWN)
    rules["clone"] = load_argument(0, if_any_bit(_NAMESPACES, _REFUSED, ALLOW))
    rules["personality"] = load_argument(0, if_equal(_QUERY_PERSONALITY, ALLOW, _REFUSED))
    rules["ioctl"] = load_argument(1, _one_of(_TERMINAL_INPUT, _REFUSED, ALLOW))
    for name, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("creat", 1)):
        rules[name] = _without_set_id(mode)
    for name, mode in (("mknod", 1), ("mknodat", 2)):
        rules[name] = _without_set_id(mode)
    for name, flags in (("open", 1), ("openat", 2)):
        rules[name] = load_argument(flags, if_any_bit(_MAKES_FILES, _without_set_id(flags + 1), ALLOW))
    kinds = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
    local = load_argument(1, _one_of(kinds, ALLOW, _NOT_PERMITTED), mask=_TYPE_MASK)
    rules["socketpair"] = local
    rules["socket"] = load_argument(
        0, if_equal(socket.AF_UNIX, local, _internet() if tcp else _NOT_PERMITTED)
    )
    _install(rules)


def forbid_connecting() -> None:
    """Forbids all threads and children of this process to connect sockets; see `forbid`.

    Otherwise a service outside of the sandbox could do for the process what the process may not do.
    """
    without_address = load_argument(4, if_equal(0, ALLOW, _NOT_PERMITTED), upper=True)
    _install(
        {
            "connect": _NOT_PERMITTED,
            "sendto": load_argument(4, if_equal(0, without_address, _NOT_PERMITTED)),
            "sendmsg": load_argument(2, if_any_bit(_MSG_FASTOPEN, _NOT_PERMITTED, ALLOW)),
            "sendmmsg": load_argument(3, if_any_bit(_MSG_FASTOPEN, _NOT_PERMITTED, ALLOW)),
        }
    )


def _one_of(values: Iterable[int], then: Code, otherwise: Code) -> Code:
    code = otherwise
    for value in values:
        code = if_equal(value, then, code)
    return code


def _without_set_id(mode: int) -> Code:
    return load_argument(mode, if_any_bit(_SET_ID, _REFUSED, ALLOW))


def _internet() -> Code:
    """Returns code that allows only TCP sockets, since Landlock does not check other protocols."""
    protocol = load_argument(2, _one_of((0, socket.IPPROTO_TCP), ALLOW, _NOT_PERMITTED))
    stream = load_argument(1, if_equal(socket.SOCK_STREAM, protocol, _NOT_PERMITTED), mask=_TYPE_MASK)
    return load_argument(0, _one_of((socket.AF_INET, socket.AF_INET6), stream, _NOT_PERMITTED))


def _install(rules: dict[str, Code]) -> None:
    machine = MACHINES[platform.machine()]
    numbers = machine.numbers
    known = [(numbers[name], code) for name, code in rules.items() if name in numbers]
    code = program(machine.architecture, LAST_KNOWN_NUMBER, _UNKNOWN, known)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    thread = system_call(numbers["seccomp"], _SET_MODE_FILTER, _ALL_THREADS, described)
    if thread:
        raise OSError(errno.EBUSY, f"thread {thread} has a different filter")
