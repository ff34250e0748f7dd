"""Code that is generated on demand: a kernel has many candidates, and most are never built."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """Text of a function, and the numbers that it takes.

    Attributes:
        text: the function, and the helpers that only it needs.
        numbers: the values of its last parameters, of 32 bits. Functions that differ only in these
            have the same text.
    """

    text: str
    numbers: tuple[int, ...] = ()


class LazyCode:
    """Code that is generated when it is first read. Codes with the same content are equal.

    Args:
        make: returns the code. It is called once, unless threads read the code at the same time.
    """

    __slots__ = ("_code", "_make")

    def __init__(self, make: Callable[[], Code]) -> None:
        self._make: Callable[[], Code] | None = make
        self._code = Code("")

    @classmethod
    def of(cls, text: str, numbers: tuple[int, ...] = ()) -> "LazyCode":
        """Returns code that is known."""
        code = Code(text, numbers)
        known = cls(lambda: code)
        known._code, known._make = code, None
        return known

    @property
    def text(self) -> str:
        """The text of the function."""
        return self._content.text

    @property
    def numbers(self) -> tuple[int, ...]:
        """The values of its last parameters."""
        return self._content.numbers

    @property
    def _content(self) -> Code:
        make = self._make
        if make is not None:
            self._code = make()
            # What it refers to is not needed any more.
            self._make = None
        return self._code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyCode) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)
