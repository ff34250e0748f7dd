"""Commands of neurald on every page have only options that exist."""

import re
from pathlib import Path
from typing import Any

from support.pages.promises import ROOT
from support.sweeps import sweep
from typer.main import get_command

from neurald.service.cli import app

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"neurald ([a-z-]+)([^&|#]*)")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def commands_in_text(text: str) -> list[tuple[str, str]]:
    """Returns the commands of neurald in blocks and in the text, and the arguments of each."""
    lines = [line for block in _BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    spans = [" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", text))]
    return [found for line in (*lines, *spans) for found in _COMMAND.findall(line)]


def unknown_options(text: str) -> list[str]:
    """Returns the options in a text that their commands do not have."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    unknown = []
    for name, arguments in commands_in_text(text):
        if name not in commands:
            continue
        command = commands[name]
        first = arguments.split()[:1]
        inner = getattr(command, "commands", {}).get(first[0]) if first else None
        parameters = (inner or command).params
        known = {option for each in parameters for option in (*each.opts, *each.secondary_opts)}
        unknown += [f"neurald {name} {o}" for o in _OPTION.findall(arguments) if o not in known | {"--help"}]
    return unknown


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_of_commands_exist(page: Path) -> None:
    assert not unknown_options(page.read_text(encoding="utf-8"))


def test_options_that_do_not_exist_are_found() -> None:
    text = "`neurald run --imaginary`, `neurald cache warm --all`, `neurald run --json --help`\n"
    block = "```console\n$ neurald driver cpu \\\n    --sandbox full --fast\n```\n"
    assert unknown_options(text + block) == [
        "neurald driver --fast",
        "neurald run --imaginary",
        "neurald cache --all",
    ]
