"""Makes authorities and certificates for tests, valid ones and others."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.certificates import authority as module
from neurald.service.certificates.authority import Authority


def make_authority(folder: Path, name: str = "tests") -> Authority:
    """Creates an authority."""
    authority = Authority(folder)
    authority.create(name)
    return authority


def issue(authority: Authority, name: str, hosts: Sequence[str] = ()) -> TlsFiles:
    """Issues a certificate that is valid now."""
    return TlsFiles.in_folder(authority.issue(name, hosts, 1))


class _Clock(datetime):
    """A clock that is days off; `shifted` makes one."""

    offset = timedelta()

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(UTC) + cls.offset


def issue_at(authority: Authority, offset: timedelta, name: str, hosts: Sequence[str] = ()) -> TlsFiles:
    """Issues a certificate for one day as if it were another time.

    The authority's own certificate must be valid then.
    """

    class Shifted(_Clock):
        pass

    Shifted.offset = offset
    module.datetime = Shifted  # type: ignore[attr-defined]
    try:
        return issue(authority, name, hosts)
    finally:
        module.datetime = datetime  # type: ignore[attr-defined]


def make_old_authority(folder: Path, days: int) -> Authority:
    """Creates an authority some days ago."""

    class Shifted(_Clock):
        offset = timedelta(days=-days)

    module.datetime = Shifted  # type: ignore[attr-defined]
    try:
        return make_authority(folder)
    finally:
        module.datetime = datetime  # type: ignore[attr-defined]
