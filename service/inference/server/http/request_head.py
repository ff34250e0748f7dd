"""The head of a request over HTTP: what RFC 9112 requires of it and the parser does not check."""

import re
from collections.abc import Mapping
from typing import Any, Final

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted

#: The name or address of a host, and perhaps a port (RFC 3986, 3.2.2). A request without authority
#: has an empty one.
_HOST: Final = re.compile(rb"(?:[\w.~!$&'()*+,;=%-]*|\[[\w.:%-]+\])(?::\d*)?", re.ASCII)


def require_sound_head(scope: Mapping[str, Any]) -> None:
    """Checks the fields of a head of which a proxy might make something else than this server.

    Raises:
        ServiceError: the host is missing or given twice, or the transfer coding is not that of
            chunks.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) > 1 or (not hosts and scope["http_version"] == "1.1"):
        raise ServiceError(
            Status.INVALID, f"the request has {len(hosts)} headers Host; HTTP/1.1 has exactly 1"
        )
    for host in hosts:
        if _HOST.fullmatch(host.strip()) is None:
            raise ServiceError(
                Status.INVALID,
                f"the header Host is {quoted(host.decode('latin-1'))}; the name or address of a host is expected",
            )
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"transfer-encoding"]
    if codings not in ([], [b"chunked"]):
        raise ServiceError(
            Status.UNIMPLEMENTED,
            f"the header Transfer-Encoding is {quoted(b', '.join(codings).decode('latin-1'))}; only chunked is "
            "supported. Name the compression of a body in Content-Encoding.",
        )
