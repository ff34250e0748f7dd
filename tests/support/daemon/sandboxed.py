"""A process in the sandbox that tries forbidden acts.

`python -m support.daemon.sandboxed '{…}'` prints the outcomes. Each act is tried by a separate
child process, with arguments that do no harm if it is allowed.
"""

import ctypes
import errno
import json
import mmap
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neurald.hal.process.address import Address
from neurald.service.sandbox import landlock, seccomp
from neurald.service.sandbox.kernel import system_call
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.sandbox import Sandbox, enter
from neurald.service.sandbox.system_calls import MACHINES

NUMBERS = MACHINES[os.uname().machine].numbers if os.uname().machine in MACHINES else {}
_NOBODY = 2**22 + 1  # not a valid process number


def called(name: str, *arguments: int | bytes | None) -> Callable[[], object]:
    """Creates an act that consists of one system call."""
    return lambda: system_call(NUMBERS[name], *arguments)


def connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.connect(address)


def new_user_namespace() -> None:
    flags = 0x10000000 | 17  # CLONE_NEWUSER, SIGCHLD
    if system_call(NUMBERS["clone"], flags, 0, 0, 0, 0) == 0:
        os._exit(0)


def executable_memory() -> None:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.close()


def thread() -> None:
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(1))
    worker.start()
    worker.join()
    assert found == [1]


def listen(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()


def temporary_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")


def acts(task: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Returns all acts by name."""
    outside, inside = Path(task["outside"]), Path(task["inside"])
    parent = os.getppid()
    found: dict[str, Callable[[], object]] = {
        "write to a file": lambda: (outside / "file").open("r+"),
        "make a file": lambda: (outside / "new").open("w"),
        "cut a file": lambda: os.truncate(outside / "file", 1),
        "remove a file": (outside / "file").unlink,
        "rename a file": lambda: (outside / "file").rename(outside / "other"),
        "take a file": lambda: (outside / "file").rename(inside / "taken"),
        "make a directory": (outside / "folder").mkdir,
        "make a link": lambda: (outside / "link").symlink_to("file"),
        "make a device": lambda: os.mknod(inside / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        "make a set-user-ID file": lambda: os.close(os.open(inside / "id", os.O_CREAT | os.O_WRONLY, 0o4755)),
        "set a set-user-ID bit": lambda: (outside / "file").chmod(0o4755),
        "give a file away": lambda: os.chown(outside / "file", os.getuid(), os.getgid()),
        "set an attribute": lambda: os.setxattr(outside / "file", "user.a", b"b"),
        "write to another process": lambda: os.close(os.open(f"/proc/{parent}/mem", os.O_RDWR)),
        "read another process": Path(f"/proc/{parent}/environ").read_bytes,
        "signal another process": lambda: os.kill(parent, 0),
        "trace a process": called("ptrace", 16, _NOBODY, 0, 0),
        "read a process": called("process_vm_readv", _NOBODY, None, 0, None, 0, 0),
        "take a descriptor": called("pidfd_getfd", -1, 0, 0),
        "mount": called("mount", None, None, None, 0, None),
        "unmount": called("umount2", b"/nonexistent\0", 0),
        "change the root": called("chroot", b"/nonexistent\0"),
        "unload a module": called("delete_module", b"no_such_module\0", 0),
        "load a module": called("finit_module", -1, b"\0", 0),
        "load a kernel": called("kexec_load", 0, 0, None, 1 << 31),
        "use keys": called("keyctl", 99, 0, 0, 0, 0),
        "add a key": called("add_key", None, None, None, 0, 0),
        "use BPF": called("bpf", 999, None, 0),
        "measure the machine": called("perf_event_open", None, 0, -1, -1, 0),
        "handle page faults": called("userfaultfd", 1 << 30),
        "use io_uring": called("io_uring_setup", 0, None),
        "open by handle": called("open_by_handle_at", -1, None, 0),
        "enter a namespace": called("setns", -1, 0),
        "leave a namespace": called("unshare", 0x10000000),
        "make a user namespace": new_user_namespace,
        "set the clock": called("clock_settime", 99, None),
        "name the machine": called("sethostname", None, -1),
        "type for the user": called("ioctl", 0, 0x5412, b"x"),
        "connect to TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", task["port"])),
        "connect to a socket": lambda: connect(socket.AF_UNIX, task["socket"]),
        "connect to an abstract socket": lambda: connect(socket.AF_UNIX, task["abstract"]),
        "listen at another port": lambda: listen(socket.AF_INET, ("127.0.0.1", task["free_port"])),
        "make a UDP socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "make a raw socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "make a datagram socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close(),
        "read a file of a user": (outside / "file").read_bytes,
        "list a directory of a user": lambda: list(outside.iterdir()),
        "read the passwords": Path("/etc/shadow").read_bytes,
        # Acts of drivers and daemons, which must be allowed
        "read a setting of the system": Path("/etc/passwd").read_bytes,
        "read a package": lambda: Path(__file__).read_bytes(),
        "list processes": lambda: list(Path("/proc").iterdir()),
        "list devices": lambda: list(Path("/dev").iterdir()),
        "write inside": lambda: (inside / "mine").write_text("x"),
        "make things inside": (inside / "folder").mkdir,
        "rename inside": lambda: (inside / "mine").rename(inside / "other"),
        "listen inside": lambda: listen(socket.AF_UNIX, str(inside / "s")),
        "write a temporary file": temporary_file,
        "write to /dev/null": lambda: Path("/dev/null").write_text("x"),
        "run code that was written": executable_memory,
        "load a library": lambda: ctypes.CDLL("libc.so.6"),
        "make a memfd": lambda: os.close(os.memfd_create("m", os.MFD_ALLOW_SEALING)),
        "start a thread": thread,
        "start a program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "make a pair of sockets": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
        "signal a child": lambda: subprocess.Popen(["sleep", "60"]).kill(),
        "watch a process": lambda: os.close(os.pidfd_open(os.getpid())),
    }
    return found


def tried(act: Callable[[], object]) -> str:
    """Tries an act in a child process; returns the name of its error, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            told = ""
        except OSError as error:
            told = errno.errorcode[error.errno or 0]
        except BaseException as error:
            told = repr(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(child, 0)
    return told


def main() -> None:
    task = json.loads(sys.argv[1])
    if "landlock" in task:
        landlock.version = lambda: task["landlock"]
    if "seccomp" in task:
        seccomp.is_available = lambda: task["seccomp"]
    sandbox: Sandbox = enter(
        SandboxMode(task["mode"]),
        [Address.parse(task["listen"])],
        map(Path, task.get("writable", ())),
        map(Path, task.get("readable", ())),
        driver=task.get("driver", "sample"),
        is_own_process=task.get("is_own_process", True),
    )
    sandbox.close()
    results = {name: tried(act) for name, act in acts(task).items() if name in task.get("acts", (name,))}
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    json.dump({"parts": sandbox.parts, "results": results, "status": status}, sys.stdout)
    sandbox.remove_temporary_files()


if __name__ == "__main__":
    main()
