"""The operating reference describes every setting and every limit, with their defaults."""

import re

from support.pages.promises import ROOT

from neurald.hal.accounting.limits import Limits
from neurald.service.manager.settings.configuration import DriverSettings

REFERENCE = (ROOT / "docs" / "reference" / "operating.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the rows of the table whose first heading this is."""
    table = REFERENCE[REFERENCE.index(f"| {heading} |") :].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def test_every_setting_of_a_driver_is_described() -> None:
    described = {name for name, *_ in rows("setting of a driver") for name in re.findall(r"`(\w+)`", name)}
    assert described == set(DriverSettings.__struct_fields__)


def test_every_limit_is_described_with_its_default() -> None:
    defaults = {name.strip("`"): default for name, _, default, _ in rows("limit")}
    assert defaults.pop("weight.USER") == "1"
    assert set(defaults) == set(Limits.__struct_fields__) - {"weights"}
    limits = Limits()
    for name, default in defaults.items():
        # Those of memory and descriptors depend on the machine.
        if default.isdigit():
            assert getattr(limits, name) == int(default), name
