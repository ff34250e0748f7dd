"""Writes the output of commands: tables or JSON to stdout, notes and progress to stderr.

Text from files, such as names and labels, must go through `printable`, so that it cannot inject
control sequences into the terminal.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Protocol

from neurald.hal.wording import counted
from neurald.service.console.journal import goes_to_journal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: Width of output to a pipe. It is larger than any table, so that nothing is truncated or wrapped.
_PIPE_WIDTH = 10_000
#: What is below the titles of a table, and how long it is at most in a pipe or file, where one row
#: may be far longer than all others.
_RULE, _MAX_RULE_WIDTH = "─", 80
#: Lines are not wrapped to less than this, even on a narrower terminal.
_MIN_LINE_WIDTH = 20
#: Spaces between two columns of a table, and before a text below a row.
_COLUMN_GAP, _INDENT = 3, 2
#: Minimum width of a shortened column.
_MIN_COLUMN_WIDTH = 8
#: Longer words, such as paths, may be broken.
_MAX_WORD_WIDTH = 24
#: Precedes an error in systemd's journal, which would take it for a line of no importance.
_JOURNAL_ERROR = "<3>"


def printable(text: str) -> str:
    """Escapes characters that are not printable, such as control characters and line breaks."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def write_json(document: Any) -> None:
    """Writes one JSON document, and nothing else, to stdout.

    NumPy numbers must have been converted to Python numbers. NaN and infinities become null, since
    JSON cannot represent them. Bytes of a file's name that are not UTF-8 are escaped.
    """
    import msgspec

    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_encodable(msgspec.to_builtins(document)))
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def _encodable(value: Any) -> Any:
    """Returns a value of dictionaries, lists and text with halves of surrogate pairs escaped."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


def write_line(text: str = "") -> None:
    """Writes one line to stdout, wrapped at words if it is wider than the terminal."""
    sys.stdout.write(wrapped(text, sys.stdout) + "\n")


def write_error(text: str) -> None:
    """Writes an error to stderr, without control characters; see `write_line`."""
    priority = _JOURNAL_ERROR if goes_to_journal() else ""
    sys.stderr.write(wrapped(f"{priority}error: {printable(text)}", sys.stderr) + "\n")


def terminal_width(file: IO[str]) -> int | None:
    """Returns how many columns the terminal of a file has; None if it is no terminal."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def wrapped(text: str, file: IO[str]) -> str:
    """Wraps a line for a terminal; other files get it as it is.

    Words, such as paths, stay whole.
    """
    width = terminal_width(file)
    if width is None or len(text) <= width:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.fill(
        text,
        max(width, _MIN_LINE_WIDTH),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def write_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    shorten: Sequence[str] = (),
    below: str = "",
) -> None:
    """Writes a table to stdout.

    Args:
        columns: the titles of the columns.
        rows: the rows, each with one text per column.
        right: columns that are aligned to the right.
        shorten: columns whose texts are shortened if the terminal is too narrow: names in the
            middle, and other texts at their ends. Texts of other columns are wrapped then. Output
            to a pipe is always complete.
        below: column whose texts come below the rest of their rows, if the terminal is too narrow
            for all columns; empty for none. Its texts are whole.
    """
    console = _console(sys.stdout)
    text = TableText(columns=columns, rows=rows, right=right, shorten=shorten)
    table = _in_two_lines(text, below, console.width) if below else _table(text, console.width)
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        is_rule = line.startswith(_RULE) and not line.strip(_RULE)
        write_line(line[:_MAX_RULE_WIDTH] if is_rule else line.rstrip())


@dataclass(frozen=True, slots=True, kw_only=True)
class TableText:
    """A table; see `write_table`.

    Attributes:
        spare: columns that are left out one after the other while the terminal is too narrow.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()
    shorten: Sequence[str] = ()
    spare: Sequence[str] = ()

    def without(self, column: str) -> "TableText":
        """Returns the table without a column."""
        place = self.columns.index(column)
        rows = [(*row[:place], *row[place + 1 :]) for row in self.rows]
        return replace(self, columns=(*self.columns[:place], *self.columns[place + 1 :]), rows=rows)

    def fitting(self, width: int) -> "TableText":
        """Returns the table without as many spare columns as do not fit into a width."""
        found = self
        for column in self.spare:
            if _widths(found.columns, found.rows, found.shorten, width) is not None:
                break
            found = found.without(column)
        return found


@contextmanager
def live_tables() -> Iterator[Callable[[Sequence[TableText]], None]]:
    """Takes the terminal for tables that replace those before.

    Yields:
        A function that shows tables, one below the other.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.segment import Segment, Segments

    console = _console(sys.stdout)
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def show(tables: Sequence[TableText]) -> None:
            parts: list[Any] = []
            for each in tables:
                table = each.fitting(console.width)
                parts += ["", _table(table, console.width)]
            lines = console.render_lines(Group(*parts[1:]), pad=False)
            beyond = len(lines) - console.height
            if beyond > 0:
                left = counted(beyond + 1, "more line")
                lines[-beyond - 1 :] = [[Segment(f"… {left}: make the window higher")]]
            live.update(Segments([part for line in lines for part in (*line, Segment.line())]), refresh=True)

        yield show


def _table(table: TableText, width: int) -> "Table":
    """Returns a table for a terminal, whose columns are no wider than that allows."""
    texts = [list(map(printable, row)) for row in table.rows]
    widths = _widths(table.columns, texts, table.shorten, width)
    return _records(table.columns, texts) if widths is None else _with_widths(table, texts, widths)


def _with_widths(
    table: TableText, texts: Sequence[Sequence[str]], widths: Sequence[int], *, has_header: bool = True
) -> "Table":
    """Returns a table with these rows and widths of columns."""
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", show_header=has_header
    )
    for column, wide in zip(table.columns, widths, strict=True):
        made.add_column(
            column,
            justify="right" if column in table.right else "left",
            overflow="ellipsis" if column in table.shorten else "fold",
            no_wrap=column in table.shorten,
            width=wide,
        )
    for text in texts:
        cells = zip(table.columns, text, widths, strict=True)
        made.add_row(
            *(_shortened(cell, wide) if column in table.shorten else cell for column, cell, wide in cells)
        )
    return made


def _in_two_lines(table: TableText, below: str, width: int) -> "RenderableType":
    """Returns a table with a column's texts below the rest of their rows; see `write_table`."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    place = table.columns.index(below)
    texts = [list(map(printable, row)) for row in table.rows]
    natural = _widths(table.columns, texts, (), sys.maxsize) or []
    room = width - _COLUMN_GAP * (len(table.columns) - 1)
    rest = table.without(below)
    rows = [[*row[:place], *row[place + 1 :]] for row in texts]
    widths = _widths(rest.columns, rows, rest.shorten, width)
    if sum(natural) <= room or widths is None:
        return _table(table, width)
    lines: list[RenderableType] = [_with_widths(rest, [], widths)]
    for whole, row in zip(texts, rows, strict=True):
        # Every row is a table of its own, with the columns of all.
        lines.append(_with_widths(rest, [row], widths, has_header=False))
        lines.append(Padding(Text(whole[place]), (0, 0, 0, _INDENT), expand=False))
    return Group(*lines)


def _shortened(text: str, width: int) -> str:
    """Leaves the middle of a name out if that is too long; prose ends with an ellipsis instead."""
    if len(text) <= width or max(map(len, text.split())) <= width or not text.isascii():
        return text
    # Names differ in their ends, such as those of one family of models.
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def _records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """Returns the rows one below the other, with a line for each column, for narrow terminals."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            table.add_row("", "")
        for column, text in zip(columns, row, strict=True):
            if column or text:
                table.add_row(column, text)
    return table


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], shorten: Sequence[str], width: int
) -> list[int] | None:
    """Distributes the width of the terminal among the columns.

    Columns that may be shortened give up theirs first, and then the others as much as their words
    allow.

    Returns:
        The widths; None if words do not fit.
    """
    from rich.cells import cell_len

    cells = [(column, *(row[number] for row in rows)) for number, column in enumerate(columns)]
    natural = [max(map(cell_len, each)) for each in cells]
    words = [max(cell_len(word) for text in each for word in (text.split() or [""])) for each in cells]
    narrow = [
        min(wide, _MIN_COLUMN_WIDTH) if column in shorten else min(word, _MAX_WORD_WIDTH)
        for column, wide, word in zip(columns, natural, words, strict=True)
    ]
    room = width - _COLUMN_GAP * (len(columns) - 1)
    whole = [
        least if column in shorten else wide
        for column, wide, least in zip(columns, natural, narrow, strict=True)
    ]
    for enough in (whole, narrow):
        if sum(enough) <= room:
            return _filled(enough, natural, room)
    return None


def _filled(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Widens columns by equal parts of the room that is left, as far as they need it."""
    widths = list(least)
    room -= sum(least)
    wanted = sorted(
        (wide - narrow, column) for column, (narrow, wide) in enumerate(zip(least, most, strict=True))
    )
    for number, (more, column) in enumerate(wanted):
        given = min(more, room // (len(wanted) - number))
        widths[column] += given
        room -= given
    return widths


def note(text: str) -> None:
    """Writes a note to stderr; see `write_line`."""
    sys.stderr.write(wrapped(f"note: {printable(text)}", sys.stderr) + "\n")


class Progress(Protocol):
    """A progress bar that the caller advances."""

    def advance_to(self, share: float) -> None:
        """Shows that a share of the work, from 0 to 1, is done."""
        ...


class _NoProgress:
    """A progress bar that shows nothing."""

    def advance_to(self, share: float) -> None:
        pass


@contextmanager
def status(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Shows a spinner on stderr during the block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    # The spinner is slow, because its thread competes with the work.
    with _console(sys.stderr).status(printable(text), refresh_per_second=4):
        yield


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Shows a progress bar on stderr, if stderr is a terminal.

    It draws only inside `advance_to`, at most ten times a second.
    """
    if quiet or not sys.stderr.isatty():
        yield _NoProgress()
        return
    yield from _bar(text)


def _bar(text: str) -> Iterator[Progress]:
    import time

    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with RichProgress(
        *columns, console=_console(sys.stderr), transient=True, auto_refresh=False, disable=False
    ) as bars:
        task = bars.add_task(printable(text), total=1.0)

        class Bar:
            drawn = 0.0

            def advance_to(self, share: float) -> None:
                now = time.monotonic()
                if now - self.drawn >= 0.1:
                    self.drawn = now
                    bars.update(task, completed=share)
                    bars.refresh()

        yield Bar()


def _console(file: IO[str]) -> "Console":
    from rich.console import Console

    class PassingConsole(Console):
        """A console that reports a closed pipe to the command; rich would exit with status 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if file.isatty() else _PIPE_WIDTH
    return PassingConsole(file=file, width=width, markup=False, emoji=False, highlight=False)


def discard_stdout() -> None:
    """Discards pending output after the reader has closed the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
