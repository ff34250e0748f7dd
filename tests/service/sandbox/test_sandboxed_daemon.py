"""Daemons in the sandbox work as they do outside of it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.daemon.command_line import start

import neurald as nd
from neurald.hal.rpc.wire.device import Access
from neurald.service.demo.digits import MODEL
from neurald.service.sandbox import landlock, seccomp
from neurald.service.sandbox.sandbox import ALL_PARTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        landlock.version() < 6 or not seccomp.is_available(), reason="this kernel has not all of the sandbox"
    ),
]


def environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir(mode=0o700, exist_ok=True)
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder / "tmp")}


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    process = start("driver", *arguments, env=environment(folder), cwd=folder)
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while not lines[-1].startswith("serving ") and lines[-1]:
            lines.append(process.stderr.readline())
        assert lines[-1], lines
        yield process, lines[-1].split()[-1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def run(folder: Path, *arguments: str | Path) -> Any:
    process = start(*arguments, "--json", env=environment(folder))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.mark.full
@pytest.mark.parametrize(
    "cases",
    [
        ("--case=FLOOR:0:0:base",),
        pytest.param(
            [f"--operation={name}" for name in ("ADD", "CONV_2D", "FLOOR", "SOFTMAX", "LSTM")],
            marks=pytest.mark.full,
        ),
    ],
    ids=["one case", "operations"],
)
def test_a_cpu_daemon_is_conforming(cases: Sequence[str], folder: Path) -> None:
    with serving(folder, "cpu", "--sandbox", "full") as (process, address):
        document = run(folder, "conformance", "--device", address, "--count", "0", *cases)
        assert {counts["failed"] for counts in document["counts"].values()} == {0}
        assert document["counts"]["operations"]["passed"] > 0
        for _ in range(2):
            document = run(folder, "run", MODEL, "--device", address)
            assert [step["device"] for step in document["steps"]] == ["cpu@cpu"]
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        assert (
            "Max core file size        0                    0"
            in Path(f"/proc/{process.pid}/limits").read_text()
        )
    assert list((folder / "neurald").iterdir()) == []
    assert list((folder / "tmp").iterdir()) == []


def test_it_says_what_protects_others(folder: Path) -> None:
    with serving(folder, "cpu", "--listen", "127.0.0.1:0", "-v") as (_, address):
        device = nd.connect(address, token_file=next((folder / "neurald").glob("*.token")))
        status = device.status()
        assert status.sandbox == ALL_PARTS
        assert status.access is Access.TOKEN
        device.close()
    with serving(folder, "cpu", "--sandbox", "off") as (_, address):
        _, remote = run(folder, "devices")["devices"]
        assert remote["daemon"]["sandbox"] == []
        assert remote["daemon"]["access"] == "OWN_USER"
        process = start("devices", env=environment(folder))
        assert "note: cpu@cpu: the daemon's process is not in a sandbox" in process.communicate(timeout=60)[1]


def test_a_driver_that_reads_files_of_users_is_told_why_it_cannot(folder: Path) -> None:
    secret = folder / "home" / "weights"
    secret.parent.mkdir()
    secret.write_text("w")
    work = folder / "work"
    work.mkdir()
    (work / "reader.py").write_text(
        "from pathlib import Path\nfrom neurald.drivers.reference.device import create as create_reference\n\n"
        f"def create():\n    Path({str(secret)!r}).read_text()\n    return create_reference()\n"
    )
    process = start("driver", "reader:create", env=environment(folder), cwd=work)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "PermissionError" in err
    assert "--readable PATH shows them" in err
    process = start("driver", "reader:create", "--readable", secret, env=environment(folder), cwd=work)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("serving reader:create on ")
    process.terminate()
    process.communicate(timeout=60)


def test_an_opencl_daemon_runs_models(folder: Path) -> None:
    pytest.importorskip("pyopencl")
    from neurald.hal.errors import Error
    from neurald.hal.registry import create_device

    try:
        create_device("opencl")
    except Error as error:
        pytest.skip(str(error))
    with serving(folder, "opencl", "--sandbox", "full") as (_, address):
        document = run(folder, "conformance", "--device", address, "--case", "FLOOR:0:0:base")
        assert document["counts"]["operations"]["failed"] == 0
        assert document["counts"]["operations"]["passed"] > 0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Paths of sockets are limited, so the name is short.
    return tmp_path_factory.mktemp("s")
