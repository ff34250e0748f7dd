"""Words of messages and explanations."""

from collections.abc import Sequence


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """Returns text of others for logs and terminals, without characters that control these.

    Args:
        text: of another process, or of a file.
        keeps_lines: whether it may have several lines.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() or (keeps_lines and each == "\n") else " " for each in text])


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun, such as `1 input` or `3 inputs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Returns words with commas, and with another word before the last one: `a, b and c`."""
    return f" {last} ".join([each for each in (", ".join(words[:-1]), words[-1]) if each])
