"""Headers of requests that become parameters of the inference.

A proxy, or a client, names with them what belongs to no tensor, such as the id of a request. The
operator chooses which, by a pattern for their names.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final

from neurald.hal.errors import BadData
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import RESERVED_PREFIX, Parameter, quoted

#: Parameters of the protocol, which no header may be.
_RESERVED: Final = frozenset(
    (
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "headers",
        "binary_data_output",
    )
)
#: Headers that prove who the client is.
_SECRET: Final = ("authorization", "proxy-authorization", "cookie")
#: What patterns begin with that tell capital letters from small ones.
_CASE_MATTERS: Final = "(?-i)"
#: Maximum number of names for which it is remembered whether they match.
_KEPT_NAMES: Final = 256


class ForwardedHeaders:
    """The headers that become parameters. Any thread may call its methods.

    Args:
        pattern: the regular expression that is looked for in names; empty to forward none. Capital
            and small letters are the same, unless it begins with `(?-i)`.
        option: the option that it is from, for errors.
        secret: names of more headers that are never forwarded.

    Raises:
        BadData: it is not a regular expression.
    """

    def __init__(self, pattern: str = "", *, option: str = "", secret: Collection[str] = ()) -> None:
        flags = re.NOFLAG if pattern.startswith(_CASE_MATTERS) else re.IGNORECASE
        try:
            self._pattern = re.compile(pattern.removeprefix(_CASE_MATTERS), flags)
        except re.error as error:
            raise BadData(f"{option} {pattern!r} is not a regular expression: {error}") from None
        self._is_on = bool(pattern)
        self._secret = frozenset((*_SECRET, *secret))
        # A header as long as clients may send costs its matching only once.
        self._is_forwarded = lru_cache(_KEPT_NAMES)(self._matches)

    def _matches(self, name: str) -> bool:
        return name not in self._secret and self._pattern.search(name) is not None

    def of_http(self, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Parameter]:
        """Returns the parameters that headers are; raises ServiceError if one is reserved."""
        if not self._is_on:
            return {}
        return self._parameters(
            (name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in headers
        )

    def of_grpc(self, metadata: Sequence[tuple[str, str | bytes]]) -> dict[str, Parameter]:
        """Returns the parameters that metadata are; raises ServiceError if one is reserved.

        Metadata of bytes, whose names end in `-bin`, are not parameters.
        """
        if not self._is_on:
            return {}
        return self._parameters((name, value) for name, value in metadata if isinstance(value, str))

    def _parameters(self, headers: Iterable[tuple[str, str]]) -> dict[str, Parameter]:
        found: dict[str, Parameter] = {}
        for name, value in headers:
            if not self._is_forwarded(name):
                continue
            if name in _RESERVED or name.startswith(RESERVED_PREFIX):
                raise ServiceError(
                    Status.INVALID,
                    f"Header {quoted(name)} is reserved for Triton usage and cannot be forwarded.",
                )
            found[name] = value
        return found
