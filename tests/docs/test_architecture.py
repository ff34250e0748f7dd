"""The page on the architecture lists every room of three packages in layer order."""

import re
import tomllib
from pathlib import Path

from support.sweeps import sweep

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "maintainers" / "architecture.md"
#: Files of `hal` that the page need not explain.
_SMALL = {"api_arguments"}


def _listed(package: str) -> list[set[str]]:
    """Returns the names in the first column of a package's table, row by row, without suffixes."""
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index(f"### `{package}`") :].split("\n### ", 2)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [
        {name.removesuffix(".py").replace("/", ".") for name in re.findall(r"`([^`]+)`", row)} for row in rows
    ]


def _enforced(package: str) -> list[set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"] == f"rooms of {package}")
    layers = [
        {name.strip().removeprefix(f"neurald.{package}.") for name in layer.split("|")} - _SMALL
        for layer in contract["layers"]
    ]
    return [layer for layer in layers if layer]


@sweep("package", ("hal", "runtime", "service"))
def test_the_page_has_the_layers_of_a_package(package: str) -> None:
    assert _listed(package) == _enforced(package)
