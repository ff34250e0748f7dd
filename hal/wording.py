"""Words of messages and explanations."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Final

#: How much is said of an error of code that is not neurald's own, in characters.
MAX_DESCRIBED: Final = 4096
#: Packages that call code of others.
_CALLERS: Final = ("neurald", "importlib")


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """Returns text of others for logs and terminals, without characters that control these.

    Args:
        text: of another process, or of a file.
        keeps_lines: whether it may have several lines.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() or (keeps_lines and each == "\n") else " " for each in text])


def described(error: BaseException) -> str:
    """Returns the type and text of an error that code of others raised, of limited length.

    Its text may have any length, and making it may fail.
    """
    return f"{shortened(type(error).__name__)}: {text_of(error)}"


def described_with_place(error: BaseException) -> str:
    """Returns what `described` does, and the line that raised it in the code that neurald called.

    Whoever writes a driver sees its errors only as texts.
    """
    place, root = "", ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if not root and package not in _CALLERS:
            root = package
        if root and package == root:
            file = os.path.basename(trace.tb_frame.f_code.co_filename)  # noqa: PTH119 - of text
            place = f" ({printable(shortened(file))}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{described(error)}{place}"


def text_of(error: BaseException) -> str:
    """Returns the text of an error that code of others raised; see `described`."""
    try:
        text = str(error)
    except Exception as failure:
        return f"(its text cannot be made: {shortened(type(failure).__name__)})"
    return printable(shortened(text), keeps_lines=True)


def shortened(text: str) -> str:
    """Returns the beginning of a text of others if it is very long, else all of it."""
    return text if len(text) <= MAX_DESCRIBED else f"{text[:MAX_DESCRIBED]} …"


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 input` or `3 inputs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def three_digits(value: float) -> str:
    """Returns a number with three digits, or all before its point: `0.0123`, `1.23`, `1234`."""
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def sized(size_bytes: int) -> str:
    """Returns a number of bytes with its unit, a power of 1,000: `640 B`, `24.1 KB`, `2.15 GB`."""
    unit, value = "B", float(size_bytes)
    for larger in ("KB", "MB", "GB"):
        if value < 999.5:
            break
        unit, value = larger, value / 1000
    return f"{three_digits(value)} {unit}"


def milliseconds(seconds: float) -> str:
    """Returns a time with its unit, such as `1.23 ms`."""
    return f"{three_digits(seconds * 1e3)} ms"


def inputs_and_outputs(inputs: int, outputs: int) -> str:
    """Returns both numbers, such as `2 inputs and 1 output`."""
    return f"{counted(inputs, 'input')} and {counted(outputs, 'output')}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Returns words with commas, and with another word before the last one: `a, b and c`."""
    return f" {last} ".join([each for each in (", ".join(words[:-1]), words[-1]) if each])


def output_clause(written: str) -> str:
    """Returns the end of a sentence about a process, with what it has written, in one line.

    Args:
        written: what the process has written; for "", the sentence has no such end.
    """
    line = " ".join(written.split())
    return f", with the output: {line}" if line else ""
