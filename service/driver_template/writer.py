"""Writes the package of a new driver from the templates in this folder."""

import keyword
import re
import shutil
import sys
from pathlib import Path

from neurald.hal.errors import BadData
from neurald.hal.process.files.output_file import write_output
from neurald.hal.registry import BUILT_IN

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
_MAX_NAME_LENGTH = 40
_RESERVED_NAMES = frozenset(("neurald", "numpy", "test", "tests", "pytest", "setuptools"))
#: The template of each file of the package. {package} is the name of the Python package.
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".github/workflows/test.yml": "ci.yml.txt",
    "src/{package}/__init__.py": "init.py.txt",
    "src/{package}/device.py": "device.py.txt",
    "src/{package}/prepared_model.py": "prepared_model.py.txt",
    "src/{package}/artifact.py": "artifact.py.txt",
    "src/{package}/kernels.py": "kernels.py.txt",
    "tests/test_conformance.py": "test_conformance.py.txt",
    "tests/test_damaged_files.py": "test_damaged_files.py.txt",
}


def checked_name(name: str) -> str:
    """Returns the name of the Python package for a driver.

    Raises:
        BadData: the driver cannot have this name.
    """
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
        raise BadData(
            f"driver name {name!r}; expected a lower-case letter followed by lower-case letters, digits and "
            f"single hyphens or underscores, at most {_MAX_NAME_LENGTH} characters"
        )
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise BadData(f"driver name {name!r}: it is a Python keyword; choose another name")
    if package in sys.stdlib_module_names or package in _RESERVED_NAMES:
        raise BadData(f"driver name {name!r}: a Python module has this name; choose another name")
    if name in BUILT_IN:
        raise BadData(f"driver name {name!r}: a driver of neurald has this name; choose another name")
    return package


def write_driver(name: str, directory: Path) -> None:
    """Writes the package of a new driver.

    Args:
        name: the name of the driver.
        directory: the directory of the package, which must not exist yet.

    Raises:
        BadData: the driver cannot have this name, or the directory exists.
        OSError: the package cannot be written; nothing of it is left.
    """
    package = checked_name(name)
    if directory.exists() or directory.is_symlink():
        raise BadData(f"{directory} exists already; nothing was written; name another directory")
    words = {
        "name": name,
        "package": package,
        "class": "".join(part.capitalize() for part in package.split("_")),
        "magic": package[:6].ljust(6, "_"),
    }
    contents = {path.format(package=package): _filled(template, words) for path, template in _FILES.items()}
    directory.mkdir(parents=True)
    try:
        for path, content in contents.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_output(target, content.encode())
    except BaseException:
        # A part of a package would be in the way of the next try.
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _filled(template: str, words: dict[str, str]) -> str:
    """Returns the text of a template, with the value of each word in place of @word@."""
    text = (Path(__file__).parent / template).read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
