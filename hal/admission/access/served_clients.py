"""The clients that a daemon serves at an address, and how they prove who they are."""

from dataclasses import dataclass

from neurald.hal.admission.access.sharing import NOBODY_ELSE, Sharing
from neurald.hal.errors import BadData
from neurald.hal.process.address import Address
from neurald.hal.rpc.transport.tls_files import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedClients:
    """By default the user of the daemon and root; on TCP they present a token.

    Attributes:
        insecure: serve every client that reaches the address, without a token, even on other hosts,
            although nothing is encrypted.
        tls: serve only clients with a certificate of the daemon's authority, over encrypted
            connections, and without a token; only on TCP.
        sharing: which other users are served; only on a UNIX socket.
    """

    insecure: bool = False
    tls: TlsFiles | None = None
    sharing: Sharing = NOBODY_ELSE

    def require_guarded(self, address: Address) -> None:
        """Raises an error if an address cannot be guarded like this, or is not guarded at all.

        Raises:
            BadData: the attributes exclude each other, or other hosts can reach the address
                unguarded.
        """
        if self.tls is not None and (self.insecure or address.path is not None):
            what = "--insecure" if self.insecure else f"the UNIX socket {address.path}"
            raise BadData(f"TLS is for TCP and checks every client, so it excludes {what}")
        if not address.is_loopback and not self.insecure and self.tls is None:
            raise BadData(
                f"{address} can be reached from other hosts: pass --tls FOLDER with certificates (see neurald "
                "cert), listen on 127.0.0.1, or pass --insecure to serve everyone without encryption"
            )
        if self.sharing != NOBODY_ELSE and address.path is None:
            raise BadData(f"{address} is not a UNIX socket; users can be admitted to UNIX sockets only")


#: Serves the user of the daemon and root.
OWN_USER = ServedClients()
