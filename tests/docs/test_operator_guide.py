"""The operator guide and its reference: their commands and settings exist."""

import re

from support.promises import ROOT
from typer.main import get_command

from neurald.service.cli import app
from neurald.service.manager.settings.configuration import DriverSettings

REFERENCE = (ROOT / "docs" / "reference" / "operating.md").read_text(encoding="utf-8")
TEXT = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8") + REFERENCE
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"neurald ([a-z-]+)([^&|]*)")
_OPTION = re.compile(r"--[a-z][a-z-]*")


def commands_in_text() -> list[tuple[str, str]]:
    """Returns the commands of neurald in blocks and in the text, and the arguments of each."""
    lines = [line for block in _BLOCK.findall(TEXT) for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", TEXT))]
    return [found for text in (*lines, *spans) for found in _COMMAND.findall(text)]


def test_options_of_commands_exist() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    seen = 0
    for name, arguments in commands_in_text():
        if name not in commands:
            continue
        known = {option for each in commands[name].params for option in (*each.opts, *each.secondary_opts)}
        for option in _OPTION.findall(arguments):
            assert option in known | {"--help"}, f"neurald {name} {option}"
            seen += 1
    assert seen > 10


def test_every_setting_of_a_driver_is_described() -> None:
    table = REFERENCE[REFERENCE.index("| setting of a driver |") :].split("\n\n")[0]
    described = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert described == set(DriverSettings.__struct_fields__)
