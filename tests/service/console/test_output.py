import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from support.sweeps import sweep

from neurald.service.console import output

pytestmark = pytest.mark.quick


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_printable_keeps_text_and_escapes_control() -> None:
    assert output.printable("Größe 数 a/b:0") == "Größe 数 a/b:0"
    assert output.printable("a\x1b[2Jb\nc\u202ed") == r"a\x1b[2Jb\nc\u202ed"


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json({"a": [1, 2.5, None], "b": float("nan"), "c": {"d": "ü"}})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"a": [1, 2.5, None], "b": None, "c": {"d": "ü"}}
    assert captured.out.endswith("}\n")


def test_names_of_files_that_are_not_utf8_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9.tflite")
    output.write_json({name: [name, {"a": (name, 1, None, float("inf"))}]})
    shown = "caf\\udce9.tflite"
    assert json.loads(capsys.readouterr().out) == {shown: [shown, {"a": [shown, 1, None, None]}]}


def test_tables_in_a_pipe_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 400
    output.write_table(("name", "n"), [(long, "1"), ("[bold]y[/bold] :smile:", "22")], right=("n",))
    lines = capsys.readouterr().out.splitlines()
    assert any(long in line for line in lines)
    assert any("[bold]y[/bold] :smile:" in line for line in lines)
    assert all("\x1b" not in line for line in lines)


def test_one_long_row_makes_no_other_line_long(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", "x" * 300), ("b", "short"), ("c", ""), ("─", "─")]
    output.write_table(("name", "found"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) for line in lines] == [4 + 3 + 5, 80, 7 + 300, 7 + 5, 1, 7 + 1]
    output.write_table(("name", "found"), rows[1:])
    assert capsys.readouterr().out.splitlines()[1] == "─" * (4 + 3 + 5)


def test_tables_escape_what_would_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(("name",), [("\x1b]0;title\x07",)])
    assert "\x1b" not in capsys.readouterr().out


def test_notes_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("mind\x1b this")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "note: mind\\x1b this\n"


def use_progress() -> None:
    with output.status("waiting"):
        pass
    with output.progress("working") as bar:
        for n in range(5):
            bar.advance_to(n / 4)


def test_progress_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    use_progress()
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_progress_shows_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    use_progress()
    assert "waiting" in terminal.getvalue()
    assert "working" in terminal.getvalue()
    assert capsys.readouterr().out == ""


@sweep("context", [output.status, output.progress])
def test_quiet_progress(
    monkeypatch: pytest.MonkeyPatch, context: Callable[..., AbstractContextManager[Any]]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with context("working", quiet=True):
        pass
    assert terminal.getvalue() == ""


@sweep("context", [output.status, output.progress])
def test_errors_pass_through_progress(
    monkeypatch: pytest.MonkeyPatch, context: Callable[..., AbstractContextManager[Any]]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ValueError, match="inside"), context("working"):
        raise ValueError("inside")


def narrow_table(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **options: Any) -> list[str]:
    """Returns the lines of a table on a terminal of 80 columns."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    output.write_table(*arguments, **options)
    return terminal.getvalue().splitlines()


def test_long_texts_are_shortened_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a" * 90, "b" * 90, "12345.678"), ("a", "b", "1")]
    lines = narrow_table(
        monkeypatch, ("first", "second", "n"), rows, right=("n",), shorten=("first", "second")
    )
    assert len(lines) == 4
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].count("…") == 2
    assert lines[2].endswith("12345.678")


def test_names_are_shortened_in_the_middle_and_prose_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"network_{'of_many_words_' * 5}{kind} 1" for kind in ("fp32", "int8")]
    rows = [(name, "its process has ended again and again and again", "x" * 20) for name in names]
    lines = narrow_table(monkeypatch, ("name", "reason", "n"), rows, shorten=("name", "reason"))
    assert len(lines) == 4
    shown = [line.split("   ")[0] for line in lines[2:]]
    assert [text[:8] for text in shown] == ["network_"] * 2
    assert [text[-6:] for text in shown] == ["fp32 1", "int8 1"]
    assert "its process" in lines[2]
    assert "…   xxx" in lines[2]


def test_columns_use_the_width_that_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = narrow_table(monkeypatch, ("first", "second"), [("a", "b" * 90)], shorten=("first", "second"))
    assert len(lines[2].rstrip()) == 80


def test_long_texts_come_below_their_rows_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("key", "device", "model", "n")
    rows = [("k0", "d" * 60, "many words " * 12, "1"), ("key1", "cpu", "short", "1234567")]
    options: dict[str, Any] = {"right": ("n",), "shorten": ("device",), "below": "model"}
    lines = [line.rstrip() for line in narrow_table(monkeypatch, columns, rows, **options)]
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["key", "device", "n"]
    assert lines[2].startswith("k0     ddd")
    assert lines[2].endswith("         1")
    assert " ".join(lines[3:-2]).split() == ["many", "words"] * 12
    assert all(line.startswith(("  many", "  words")) for line in lines[3:-2])
    assert lines[-2].split() == ["key1", "cpu", "1234567"]
    assert lines[-2].index("1234567") == lines[2].index("1", 75) - 6
    assert lines[-1] == "  short"
    # Without long texts, it is a usual table; and records are left where nothing else fits.
    short = narrow_table(monkeypatch, columns, rows[1:], **options)
    assert [line.split() for line in (short[0], short[2])] == [list(columns), list(rows[1])]
    records = narrow_table(monkeypatch, [*columns, "other"], [(*rows[0], "/x" * 60)] * 2, **options)
    assert "".join("".join(records).split()).count("manywords") == 24


def test_texts_that_fit_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = narrow_table(monkeypatch, ("first", "second"), [("a" * 30, "b" * 30)], shorten=("first",))
    assert "a" * 30 in lines[2]
    assert "b" * 30 in lines[2]


def test_words_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("driver", "state", "process", "reason")
    rows = [
        ("sample", "READY", "12345", "it was stopped by its user " * 4),
        ("other", "QUARANTINED", "1", "-"),
    ]
    lines = narrow_table(monkeypatch, columns, rows)
    assert max(map(len, lines)) <= 80
    assert [word for line in lines for word in line.split() if word not in {*lines[1].split()}] == [
        *columns,
        *" ".join(lines[2:]).split(),
    ]
    assert Counter(" ".join(lines[2:]).split()) == Counter(" ".join(" ".join(row) for row in rows).split())


def test_a_table_that_does_not_fit_becomes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [f"column{number}" for number in range(12)]
    rows = [[f"value{row}{number}" for number in range(11)] + ["/long" * 30] for row in range(2)]
    lines = [line.rstrip() for line in narrow_table(monkeypatch, columns, rows)]
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["column0", "value00"]
    assert lines[1].split() == ["column1", "value01"]
    start = lines.index("") + 1
    assert lines[start].split() == ["column0", "value10"]
    assert "".join(lines[11 : start - 1]).replace(" ", "").removeprefix("column11") == "/long" * 30
    # A pipe gets the table.
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stdout", pipe)
    output.write_table(columns, rows)
    assert pipe.getvalue().split("\n")[0].split() == columns


def shown_live(monkeypatch: pytest.MonkeyPatch, lines: int, *tables: output.TableText) -> str:
    """Returns what a terminal of 60 columns gets."""
    written = io.StringIO()
    written.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", str(lines))
    with output.live_tables() as show:
        show(tables)
    return written.getvalue()


def test_live_tables_leave_spare_columns_out(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = tuple(f"column{number}" for number in range(8))
    table = output.TableText(
        columns=columns, rows=[[f"value{n}" for n in range(8)]], spare=("column3", "column0", "column7")
    )
    text = shown_live(monkeypatch, 20, table)
    assert [name for name in columns if name in text] == [each for each in columns if each[-1] not in "03"]
    assert "value3" not in text
    assert "value7" in text


def test_live_tables_say_what_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    table = output.TableText(columns=("driver",), rows=[[f"driver{number}"] for number in range(8)])
    text = shown_live(monkeypatch, 12, table)
    assert "driver7" in text
    assert "make the window higher" not in text
    text = shown_live(monkeypatch, 12, table, table)
    assert "… 10 more lines: make the window higher" in text


def test_live_tables_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    written.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    with output.live_tables() as show:
        columns = ("driver", "reason")
        long = output.TableText(columns=columns, rows=[("gpu", "\x1b[2J" + "x" * 100)], shorten=("reason",))
        show([long, output.TableText(columns=("model",), rows=[("digits",)])])
        show([output.TableText(columns=columns, rows=[("npu", "-")])])
    text = written.getvalue()
    assert text.index("gpu") < text.index("digits") < text.index("npu")
    assert "\x1b[2J" + "x" not in text
    assert "\\x1b[2Jx" in text


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_prose_is_wrapped_at_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal, pipe = Terminal(), io.StringIO()
    path = "/a" * 60
    text = f"  {path}: " + "many words that say what happened, " * 6
    write = output.write_line if stream == "stdout" else output.note
    monkeypatch.setattr(sys, stream, terminal)
    write(text)
    write("short")
    monkeypatch.setattr(sys, stream, pipe)
    write(text)
    lines = terminal.getvalue().splitlines()
    assert " ".join(" ".join(lines[:-1]).split()) == " ".join(pipe.getvalue().split())
    assert all(len(line) <= 80 or path in line for line in lines)
    assert len(lines) > 3
    assert len(pipe.getvalue().splitlines()) == 1


def test_an_error_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    output.write_error("wrong \x1b[2J name " * 10)
    assert "\x1b" not in terminal.getvalue()
    assert all(len(line) <= 80 for line in terminal.getvalue().splitlines())
