"""The address of a daemon: the path of a UNIX socket, or a host and a port."""

from pathlib import Path
from typing import Self
from urllib.parse import quote

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.records import replace

#: The suffix of the socket that carries memory, after the path of a daemon's socket.
MEMORY_SUFFIX = ".memory"
#: The kernel's limit for the path of a socket, less the terminating zero and the suffix.
_MAX_PATH_BYTES = 107 - len(MEMORY_SUFFIX)


class Address(Struct, frozen=True, kw_only=True):
    """An address to listen at or to connect to: either `path`, or `host` and `port`."""

    path: Path | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses an address.

        It is `unix:///absolute/path`, `unix:path`, `host:port` or `[IPv6 address]:port`, the latter
        two also with the prefix `tcp://`.

        Raises:
            BadData: the text has none of these forms, or the path is too long for a socket.
        """
        if text.startswith("unix:"):
            return cls._parse_path(text)
        host, _, port = text.removeprefix("tcp://").rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 0xFFFF
        bad_host = not bare or not bare.isprintable() or set(bare) & set(" /[]%@")
        if not is_port or bad_host or (":" in host and host == bare):
            raise BadData(f"{text!r} is not an address; unix:///path or host:port is expected")
        return cls(host=bare, port=int(port))

    @classmethod
    def _parse_path(cls, text: str) -> Self:
        name = text.removeprefix("unix:")
        if name.startswith("//") and not name.startswith("///"):
            raise BadData(f"address {text!r}: after unix://, the path must start with a third slash")
        name = name.removeprefix("//")
        if not name or name.endswith("/") or "\0" in name:
            raise BadData(f"address {text!r} names no socket; unix:///path is expected")
        path = Path(name).absolute()
        try:
            length = len(bytes(path))
        except UnicodeEncodeError:
            raise BadData(f"address {text!r} names no socket; unix:///path is expected") from None
        if length > _MAX_PATH_BYTES:
            raise BadData(
                f"socket path {path} has {length} bytes; at most {_MAX_PATH_BYTES} are allowed, use a shorter path"
            )
        return cls(path=path)

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def short_name(self) -> str:
        """A short name for display: the stem of the socket's name, or host and port."""
        return str(self) if self.path is None else self.path.stem

    @property
    def target(self) -> str:
        """The address as gRPC spells it."""
        return str(self) if self.path is None else f"unix:{quote(bytes(self.path))}"

    @property
    def numeric(self) -> "Address":
        """The address with 127.0.0.1 in place of `localhost`.

        `localhost` has several addresses. Which one is used must not depend on who listens there.
        """
        return replace(self, host="127.0.0.1") if self.host == "localhost" else self

    @property
    def memory_path(self) -> Path:
        """The path of the socket that carries memory, beside a UNIX socket.

        Raises:
            BadData: the address is not a UNIX socket.
        """
        if self.path is None:
            raise BadData(f"{self} is not a UNIX socket; only UNIX sockets carry shared memory")
        return self.path.with_name(self.path.name + MEMORY_SUFFIX)

    @property
    def is_loopback(self) -> bool:
        """True if only this host can reach the address."""
        if self.path is not None or self.host == "localhost":
            return True
        import ipaddress  # Starts seldom ask this.

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
