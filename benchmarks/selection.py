"""Chooses what a benchmark measures, by the names that its command line gives."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Measured = TypeVar("Measured")


def selected(
    items: Iterable[Measured], name_of: Callable[[Measured], str], texts: Sequence[str], option: str
) -> list[Measured]:
    """Returns the items that are named, in their order; all of them if no name is given.

    Args:
        items: what can be measured.
        name_of: returns the name of an item.
        texts: a text that is the name of an item chooses only that one; any other one chooses all
            items whose names contain it, and an empty one nothing.
        option: the option that gives the texts, for the error.

    Raises:
        SystemExit: a text is part of no name.
    """
    found = list(items)
    names = [name_of(each) for each in found]
    wanted = [text for text in texts if text]
    chosen: set[str] = set()
    for text in wanted:
        named = [text] if text in names else [name for name in names if text in name]
        if not named:
            raise SystemExit(
                f"{option} {text}: no name contains {text!r}; the names are {', '.join(names) or 'none'}"
            )
        chosen.update(named)
    return [each for each, name in zip(found, names, strict=True) if not wanted or name in chosen]
