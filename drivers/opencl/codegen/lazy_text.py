"""Text that is generated on demand: a kernel has many candidates, and most are never built."""

from collections.abc import Callable


class LazyText:
    """Text that is generated when it is first read. Texts with the same content are equal.

    Args:
        make: returns the text. It is called once, unless threads read the text at the same time.
    """

    __slots__ = ("_make", "_text")

    def __init__(self, make: Callable[[], str]) -> None:
        self._make: Callable[[], str] | None = make
        self._text = ""

    @classmethod
    def of(cls, text: str) -> "LazyText":
        """Returns a text that is known."""
        known = cls(lambda: text)
        known._text, known._make = text, None
        return known

    @property
    def text(self) -> str:
        """The text."""
        make = self._make
        if make is not None:
            self._text = make()
            # What it refers to is not needed any more.
            self._make = None
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
