"""The capabilities of a process in the sandbox."""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.daemon.processes import python_path, run_command
from support.process.ports import free_port
from support.sweeps import sweep
from support.waiting import wait_until

from neurald.hal.errors import BadState
from neurald.hal.process.address import Address
from neurald.service.sandbox import landlock, seccomp
from neurald.service.sandbox.capabilities import KEPT
from neurald.service.sandbox.mode import SandboxMode
from neurald.service.sandbox.readable_paths import readable_paths
from neurald.service.sandbox.sandbox import ALL_PARTS, Sandbox, enter
from neurald.service.sandbox.writable_paths import make_writable_paths, require_protected

needs_all = pytest.mark.skipif(
    landlock.version() < 6 or not seccomp.is_available(), reason="this kernel has not all of the sandbox"
)
REFUSALS = ("EPERM", "EACCES", "ENOSYS")
#: Actions of drivers that the sandbox allows.
ALLOWED = {
    *("read a setting of the system", "read a package", "list processes", "list devices"),
    *("write inside", "make things inside", "rename inside", "listen inside"),
    *("write a temporary file", "write to /dev/null", "run code that was written", "load a library"),
    *("make a memfd", "start a thread", "start a program", "make a pair of sockets", "signal a child"),
    "watch a process",
}
#: Actions that the system forbids to users other than root, or in a container.
PRIVILEGED = {
    *("mount", "unmount", "change the root", "unload a module", "load a module", "load a kernel", "use BPF"),
    *("open by handle", "set the clock", "name the machine", "make a device", "use io_uring"),
    *("measure the machine", "handle page faults", "leave a namespace", "make a user namespace"),
    *("write to another process", "make a raw socket", "trace a process", "read the passwords"),
}


class Field:
    """The paths of a test, and the processes that it runs."""

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self.folder = folder
        self.inside = folder / "run"
        self.task = task

    def run(self, **changes: Any) -> dict[str, Any]:
        """Runs a sandboxed process and returns what it reports."""
        task = {**self.task, "mode": "full", "listen": f"unix://{self.inside}/d.sock", **changes}
        environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "XDG_RUNTIME_DIR": str(self.folder)}
        process = subprocess.run(
            [sys.executable, "-m", "support.daemon.sandboxed", json.dumps(task)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=100,
            env={**environment, "PYTHONPATH": python_path()},
        )
        assert process.returncode == 0, process.stderr
        document: dict[str, Any] = json.loads(process.stdout)
        return document


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    for name in ("outside", "tmp", "run"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "outside" / "file").write_text("precious")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        local.bind(str(tmp_path / "s"))
        local.listen()
        abstract.bind("\0" + str(tmp_path))
        abstract.listen()
        yield Field(
            tmp_path,
            {
                "outside": str(tmp_path / "outside"),
                "inside": str(tmp_path / "run"),
                "port": tcp.getsockname()[1],
                "free_port": free_port(),
                "socket": str(tmp_path / "s"),
                "abstract": "\0" + str(tmp_path),
            },
        )


@needs_all
@pytest.mark.slow
@pytest.mark.parametrize("listen", ["unix", "tcp"])
def test_what_no_driver_does_is_refused(field: Field, listen: str) -> None:
    found = field.run(**({"listen": "127.0.0.1:0"} if listen == "tcp" else {}), writable=[str(field.inside)])
    results: dict[str, str] = found["results"]
    assert {name for name, result in results.items() if result not in REFUSALS} == ALLOWED
    assert {name: result for name, result in results.items() if name in ALLOWED and result} == {}
    assert (field.folder / "outside" / "file").read_text() == "precious"
    assert [path.name for path in (field.folder / "outside").iterdir()] == ["file"]
    assert found["parts"] == list(ALL_PARTS)
    assert found["status"]["NoNewPrivs"] == "1"
    assert found["status"]["Seccomp"] == "2"
    kept = sum(1 << number for number in KEPT)
    for kind in ("CapPrm", "CapEff", "CapInh"):
        assert int(found["status"][kind], 16) & ~kept == 0
    if os.geteuid() == 0:
        assert int(found["status"]["CapEff"], 16) == kept
        assert int(found["status"]["CapBnd"], 16) & ~kept == 0


@pytest.mark.slow
def test_without_it_all_of_that_can_be_done(field: Field) -> None:
    """This shows that the sandbox causes the refusals above."""
    results = field.run(mode="off")["results"]
    refused = {name for name, result in results.items() if result in REFUSALS}
    assert refused <= PRIVILEGED
    if os.geteuid() == 0:
        assert len(refused) <= 3, refused


@needs_all
def test_temporary_files_have_a_place_of_their_own(field: Field) -> None:
    field.run(acts=["write a temporary file"])
    assert list((field.folder / "tmp").iterdir()) == []
    (field.folder / "tmp" / "neurald-driver-abandoned" / "x").mkdir(parents=True)
    field.run(acts=["write a temporary file"])
    assert list((field.folder / "tmp").iterdir()) == []


@needs_all
def test_further_places_can_be_named(field: Field) -> None:
    outside = field.task["outside"]
    found = field.run(acts=["make a file"], writable=[outside, "/no/such/place"])
    assert found["results"] == {"make a file": ""}
    acts = ["read a file of a user", "list a directory of a user", "make a file", "write to a file"]
    found = field.run(acts=acts, readable=[outside, "/no/such/place"])
    assert {name for name, result in found["results"].items() if not result} == set(acts[:2])


@pytest.mark.skipif(landlock.version() < 3, reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    ("lacks", "missing", "refused"),
    [
        ({"landlock": 0}, 6, {"use keys", "connect to TCP"}),
        ({"landlock": 3}, 3, {"use keys", "connect to TCP", "make a file"}),
        ({"seccomp": False}, 1, {"make a file"}),
        ({"landlock": 0, "seccomp": False}, 7, set()),
    ],
    ids=range(4),
)
def test_auto_takes_what_there_is(
    field: Field, lacks: dict[str, Any], missing: int, refused: set[str]
) -> None:
    tried = ["use keys", "make a file", "connect to TCP"]
    found = field.run(mode="auto", acts=tried, **lacks)
    if seccomp.is_available() or "seccomp" in lacks:
        assert len(found["parts"]) == len(ALL_PARTS) - missing
        results = found["results"]
        assert {name for name in tried if results[name] in REFUSALS} >= refused
        assert ("make a file" in refused) == (results["make a file"] in REFUSALS)
    assert found["status"]["NoNewPrivs"] == "1"


@sweep(
    ("version", "has_seccomp", "words"),
    [
        (0, True, "landlock-files, .*landlock-signals, since this kernel"),
        (4, True, "full: unavailable: landlock-devices, landlock-signals, since"),
        (7, False, "full: unavailable: seccomp, since"),
    ],
)
def test_full_starts_with_all_of_it_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int, has_seccomp: bool, words: str
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: version)
    monkeypatch.setattr(seccomp, "is_available", lambda: has_seccomp)
    monkeypatch.setattr("neurald.service.sandbox.sandbox._is_alone", lambda: True)
    with pytest.raises(BadState, match=words):
        enter(
            SandboxMode.FULL, [Address.parse(f"unix://{tmp_path}/d.sock")], driver="gpu", is_own_process=True
        )


def test_a_process_that_does_other_things_is_left_alone(tmp_path: Path) -> None:
    address = Address.parse(f"unix://{tmp_path}/d.sock")
    for mode in (SandboxMode.AUTO, SandboxMode.OFF):
        sandbox = enter(mode, [address], driver="gpu", is_own_process=False)
        assert sandbox.parts == ()
        sandbox.close()
    with pytest.raises(BadState, match="this process does more"):
        enter(SandboxMode.FULL, [address], driver="gpu", is_own_process=False)
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text()


def test_places_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.chdir(tmp_path)
    assert all(
        place.is_absolute() for place in make_writable_paths(Address.parse(f"unix://{tmp_path}/run/d.sock"))
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_CONFIG_HOME"])
@pytest.mark.parametrize("place", ["cache", "cache/neurald/deeper", "link", "named/state", "neurald/run"])
def test_what_drivers_must_not_change_is_not_where_they_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, place: str
) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.removeprefix("XDG_").partition("_")[0].lower()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    writable = [*make_writable_paths(Address.parse("127.0.0.1:0")), tmp_path / "named"]
    require_protected(writable)
    monkeypatch.setenv(variable, str(tmp_path / place))
    with pytest.raises(BadState, match=f"let {variable} name another directory"):
        require_protected(writable)


def test_a_daemon_does_not_start_if_a_driver_could_change_what_it_must_not(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        **dict.fromkeys(("XDG_CACHE_HOME", "XDG_STATE_HOME"), str(tmp_path)),
    }
    done = run_command(
        ["driver", "sample-all", "--listen", f"unix://{tmp_path}/run/d.sock"], environment, timeout_s=60
    )
    assert done.returncode == 1
    assert "let XDG_STATE_HOME name another directory" in " ".join(done.stderr.split())


def test_a_daemon_warns_of_sockets_beside_what_a_driver_must_not_change(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    command = [
        sys.executable,
        "-m",
        "neurald",
        "driver",
        "sample-all",
        "--listen",
        f"unix://{tmp_path}/d.sock",
    ]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as daemon,
    ):
        wait_until(lambda: b"serving" in log.read_bytes() or daemon.poll() is not None)
        daemon.terminate()
        assert daemon.wait(60) == 0
    assert "let XDG_STATE_HOME name another directory" in " ".join(log.read_text().split())


_UNSEEN = """
from neurald.service.sandbox import rlimits
rlimits._visible_tasks = lambda: 0
unseen = []
for _ in range(30):
    unseen.append(os.fork())
    if not unseen[-1]:
        signal.pause()
import atexit
atexit.register(lambda: [os.kill(each, signal.SIGKILL) for each in unseen])
rlimits.limit_resources(4)
"""
#: Limits its processes, becomes another user, and starts processes until it is refused.
_BOMB = """
import json, os, signal, sys
from neurald.service.sandbox.rlimits import limit_resources
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
limit_resources(int(sys.argv[2]))
children = []
try:
    while len(children) < 1000:
        child = os.fork()
        if not child:
            signal.pause()
        children.append(child)
    error = 0
except OSError as refused:
    error = refused.errno
for child in children:
    os.kill(child, signal.SIGKILL)
print(json.dumps([len(children), error]))
"""


def _bombed(program: str, limit: int) -> list[int]:
    """Runs a program as a user of its own; returns how many processes it started, and the error."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(2_000_000 + os.getpid()), str(limit)],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    started: list[int] = json.loads(done.stdout)
    return started


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user, and root has no limit")
def test_a_driver_cannot_start_processes_without_end() -> None:
    started, error = _bombed(_BOMB, 50)
    assert error == errno.EAGAIN
    assert 40 <= started <= 50


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_processes_that_cannot_be_seen_do_not_stop_a_daemon() -> None:
    """Those of the same user outside of a container count, too."""
    started, error = _bombed(_BOMB.replace("limit_resources(int(sys.argv[2]))", _UNSEEN), 4)
    assert error == errno.EAGAIN
    assert started > 0


def test_what_a_driver_may_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OCL_ICD_FILENAMES", f"{tmp_path}/a.so:relative.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/vendor/lib:{tmp_path}")
    monkeypatch.setenv("HOME", "/home/ada")
    found = readable_paths()
    assert {tmp_path / "a.so", tmp_path, Path("/vendor/lib"), Path(sys.prefix)} <= set(found)
    assert all(path.is_absolute() for path in found)
    private = [
        path
        for path in found
        if path.parent == Path("/etc") and path.is_file() and not path.stat().st_mode & 4
    ]
    assert private == []
    assert Path("/etc") not in found
    assert not set(found) & {
        Path("/"),
        Path("/home"),
        Path("/root"),
        Path("/var"),
        Path("/tmp"),
        Path("/run"),
    }


def test_folders_with_files_of_users_are_not_readable_since_modules_may_be_in_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home" / "ada"
    project = home / "project"
    project.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:{tmp_path}/link:/")
    for here in (Path("/"), home.parent, home, project):
        monkeypatch.chdir(here)
        # As `python -m` does.
        monkeypatch.setattr(sys, "path", [str(here), "/", str(home), f"{tmp_path}/link", "/packages"])
        found = {path.resolve() for path in readable_paths()}
        assert not found & {Path("/"), home.parent, home, project}
        assert Path("/packages") in found
        # Only the module of a factory may be where the process was started, and not at home.
        assert (here in {*readable_paths("turbo:create")}) == (here == project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    assert project in readable_paths()


@sweep(
    ("mode", "parts", "expected"),
    [
        (SandboxMode.FULL, ALL_PARTS, "full"),
        (SandboxMode.AUTO, ALL_PARTS, "full"),
        (SandboxMode.AUTO, ALL_PARTS[:2], "partial"),
        (SandboxMode.AUTO, (), "off"),
        (SandboxMode.OFF, (), "off"),
    ],
    ids=range(5),
)
def test_the_state_in_a_word(mode: SandboxMode, parts: tuple[str, ...], expected: str) -> None:
    assert Sandbox(mode=mode, parts=parts).state == expected
