"""Finds the fields that a model's configuration has, known or not, in either of its forms.

The parsers of protocol buffers leave out what they do not know, without saying so.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any, Final

#: How deep messages may be nested.
MAX_DEPTH: Final = 32
_TOKEN: Final = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|[{}<>:\[\],;]|\w+"""
)
_PUNCTUATION: Final = frozenset("{}<>:[],;")
#: What follows the name of a field, and not a value.
_AFTER_NAME: Final = frozenset(":{<[")
#: How like each other two names are of which one is misspelt, from 0 to 1. No two names that Triton
#: has in a message are.
_LIKE: Final = 0.82
_CAPITAL: Final = re.compile("[A-Z]")
#: The names of a field and of those that contain it, the outermost first.
FieldPath = tuple[str, ...]


class DeepNesting(ValueError):
    """Messages are nested too deeply."""


def fields_of_text(text: str) -> Iterator[FieldPath]:
    """Yields each field of a message in text form.

    Raises:
        DeepNesting: it is nested more than `MAX_DEPTH` deep.
    """
    names: list[str] = []
    name = ""
    for match, is_name, _ in _tokens(text):
        part = match.group()
        if is_name:
            name = part
            yield (*names, name)
        elif part in "{<":
            names.append(name)
            if len(names) > MAX_DEPTH:
                raise DeepNesting(f"it is nested more than {MAX_DEPTH} deep")
        elif part in "}>":
            # More messages of a list may follow.
            name = names.pop() if names else ""


def with_colons(text: str) -> str:
    """Returns a message in text form with a colon before each list.

    The parser wants them in front of lists of messages in fields that it does not know.
    """
    parts = []
    end = 0
    for match, is_name, following in _tokens(text):
        if is_name and following == "[":
            parts += [text[end : match.end()], ":"]
            end = match.end()
    return "".join([*parts, text[end:]])


def _tokens(text: str) -> Iterator[tuple[re.Match[str], bool, str]]:
    """Yields tokens but comments and strings, whether each is a field's name, and the next one."""
    matches = [each for each in _TOKEN.finditer(text) if each.lastgroup != "comment"]
    before = ""
    for match, following in zip_longest(matches, matches[1:]):
        part, after = match.group(), following.group() if following is not None else ""
        if match.lastgroup is None:
            is_name = before != ":" and part not in _PUNCTUATION and after in _AFTER_NAME
            yield match, is_name, after
        before = part


def fields_of_json(value: dict[str, Any], descriptor: Any) -> Iterator[FieldPath]:
    """Yields each field of a message in JSON.

    Args:
        value: the message.
        descriptor: that of the message.
    """
    for key, content in value.items():
        # JSON has either form of a name.
        name = _CAPITAL.sub(lambda found: "_" + found.group().lower(), key)
        yield (name,)
        field = descriptor.fields_by_name.get(name)
        if field is None or field.message_type is None:
            continue
        contained = field.message_type
        outer: FieldPath = (name,)
        each: Iterable[Any] = content if isinstance(content, list) else [content]
        if contained.GetOptions().map_entry:
            contained, outer = contained.fields_by_name["value"].message_type, (name, "value")
            each = content.values() if isinstance(content, dict) else ()
        for part in each:
            if contained is not None and isinstance(part, dict):
                for inner in fields_of_json(part, contained):
                    yield (*outer, *inner)


def unknown_fields(fields: Iterable[FieldPath], descriptor: Any) -> set[FieldPath]:
    """Returns the fields that a message does not have, without those that they contain."""
    counted = [(path, _known(path, descriptor)) for path in fields]
    return {path[: count + 1] for path, count in counted if count < len(path)}


def misspelt_field(path: FieldPath, descriptor: Any) -> str | None:
    """Returns the field that an unknown one is probably meant to be; None if none is like it.

    Args:
        path: as `unknown_fields` returns it.
        descriptor: that of the outermost message.
    """
    for name in path[:-1]:
        descriptor = descriptor.fields_by_name[name].message_type
        if descriptor is None:
            return None
    return next(iter(get_close_matches(path[-1], descriptor.fields_by_name, 1, _LIKE)), None)


def _known(path: FieldPath, descriptor: Any) -> int:
    """Returns how many names of a path are those of fields."""
    for count, name in enumerate(path):
        field = None if descriptor is None else descriptor.fields_by_name.get(name)
        if field is None:
            return count
        descriptor = field.message_type
    return len(path)
