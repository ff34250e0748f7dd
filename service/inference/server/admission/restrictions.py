"""Calls that only clients with a certain header may make.

An operator restricts groups of calls, such as those that load models, to clients that send a header
with a certain value.
"""

import hmac
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from neurald.hal.errors import BadData, BadState
from neurald.service.inference.protocol.errors import ServiceError, Status

#: The groups of calls.
GROUPS: Final = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)
_MAX_FILE_BYTES: Final = 4096

#: Returns the value of a header by its name in lower case; None if the client has not sent it.
FindHeader = Callable[[str], bytes | None]


class Restrictions:
    """The header that each restricted group of calls needs.

    Args:
        rules: each `GROUPS:HEADER=VALUE`, with groups separated by commas. A value `@FILE` is what
            that file has.
        noun: what the transport calls a call.
        prefix: the prefix of the names of headers.

    Raises:
        BadData: a rule is not valid.
        BadState: a file cannot be read.
    """

    def __init__(self, rules: Sequence[str], *, noun: str, prefix: str = "") -> None:
        self._noun = noun
        self._headers: dict[str, tuple[str, bytes]] = {}
        for rule in rules:
            names, colon, header = rule.partition(":")
            name, equals, value = header.partition("=")
            if not colon or not equals or not name or not value:
                raise BadData(f"a restriction of {noun}s is not of the form GROUP,GROUP:HEADER=VALUE")
            expected = (prefix + name.lower(), _value(value))
            for group in names.split(","):
                if group not in GROUPS:
                    raise BadData(
                        f"unknown restricted {noun.lower()} '{group}': it is not one of {', '.join(GROUPS)}"
                    )
                if group in self._headers:
                    raise BadData(
                        f"restricted {noun.lower()} '{group}' can not be specified in multiple config groups"
                    )
                self._headers[group] = expected

    @property
    def header_names(self) -> tuple[str, ...]:
        """The names of the headers, in lower case."""
        return tuple(name for name, _ in self._headers.values())

    def require(self, group: str, find: FindHeader) -> None:
        """Raises ServiceError if a group is restricted, and the client has not sent its header."""
        expected = self._headers.get(group)
        if expected is None:
            return
        name, value = expected
        found = find(name)
        if found is None or not hmac.compare_digest(found, value):
            raise ServiceError(
                Status.FORBIDDEN, f"This {self._noun} is restricted, expecting header '{name}'"
            )


def _value(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode()
    from neurald.hal.rpc.transport.certificate import read_file

    content = read_file(Path(text[1:]), "the value of a restricted header", is_secret=True)
    value = content[:_MAX_FILE_BYTES].strip()
    if not value:
        raise BadState(f"{text[1:]} has no value for a restricted header")
    return value
