"""`docs/environment.md` lists exactly the environment variables of neurald that the code reads."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "environment.md"
#: A constant with a variable's name, a read of `os.environ`, or an expansion in a shell script.
_READ = re.compile(
    r'(?:_VARIABLE(?:: Final)? = |environ\.get\(|environ\[)"(NEURALD_[A-Z_]+)"|\$\{?(NEURALD_[A-Z_]+)(?=[:}])'
)
#: Variables that tests, and the service manager, pass to processes that they start themselves.
_INTERNAL = {
    "NEURALD_FAULT",
    "NEURALD_MANAGER",
    "NEURALD_MATRIX",
    "NEURALD_PLANS",
    "NEURALD_TEST_CACHING_LOG",
}


def _read_variables() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "hal", "runtime", "drivers", "service", "benchmarks", "scripts", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found: set[str] = set()
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".sh", ""} and path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8")
            found.update(match[1] or match[2] for match in _READ.finditer(text))
    return found - _INTERNAL


def test_every_variable_is_documented() -> None:
    documented = set(re.findall(r"`(NEURALD_[A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert documented == _read_variables()
