"""A client in JavaScript, with the packages that programs of Node.js use for gRPC."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.inference import zoo
from support.inference.serving import Serving

ROOT = Path(__file__).parents[5]
PROGRAM = Path(__file__).with_name("client.mjs")
#: The packages are installed once for all runs on this machine.
_PACKAGES = ("@grpc/grpc-js@1.14", "@grpc/proto-loader@0.8")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder in which the packages are installed."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text("{}")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *_PACKAGES],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {' and '.join(_PACKAGES)}: {done.stderr[-300:]}")
    return folder


def test_a_client_in_javascript(packages: Path, tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "same", zoo.reshaping())
    zoo.write_plain(tmp_path, "count", zoo.counting())
    with Serving(tmp_path, http="") as service:
        service.wait_ready()
        done = subprocess.run(
            ["node", str(PROGRAM), service.grpc, str(ROOT / "proto" / "inference.proto")],
            cwd=packages,
            env={**os.environ, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "live": True,
            "ready": True,
            "metadata": "FP32",
            "config": "same",
            "answer": [1, 2, 3, 4],
            "id": "node",
            "receipt": True,
            "raw": [5, 6, 7, 8],
            "missing": "NOT_FOUND",
            "invalid": "INVALID_ARGUMENT",
            "concurrent": 50,
            "stream": ["n0", "n1", "n2", "n3", "n4"],
            "cancelled": "CANCELLED",
        }
