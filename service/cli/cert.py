"""The commands `neurald cert`: certificates for daemons and clients on different hosts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.completion import certificate_names
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from neurald.service.certificates.authority import Authority

cert = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The authority's folder. [default: neurald/tls in XDG_CONFIG_HOME]",
        show_default=False,
    ),
]
_Name = Annotated[
    str,
    typer.Argument(
        autocompletion=certificate_names,
        metavar="NAME",
        help="Of the daemon or client.",
        show_default=False,
    ),
]
#: A certificate that is valid for fewer days is mentioned.
_WARN_DAYS = 14


def _authority(folder: Path | None) -> "Authority":
    from neurald.service.certificates.authority import Authority, authority_folder

    return Authority(folder or authority_folder())


@cert.command("init", help="Create an authority, which issues certificates.")
def init(
    folder: _Folder = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the authority.")] = "neurald",
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Give an authority a new certificate and key. Certificates from the earlier one stay "
            "valid: the new ca.pem contains both.",
        ),
    ] = False,
) -> None:
    """Creates an authority, which issues certificates."""
    from neurald.service.console.output import note

    authority = _authority(folder)
    authority.create(name, replaces=replace)
    note(f"created the authority {name!r} in {authority.folder}; keep authority.key secret")


@cert.command(
    "issue",
    help="Issue a certificate, or a new one to replace it.\n\nPrint the folder that its holder needs: "
    "certificate, private key, authority and revocations.",
)
def issue(
    name: _Name,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host name or IP address at which a daemon serves. May be repeated; without it they are "
            "those of the earlier certificate of this name, or else the certificate is for a client.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[int, typer.Option(metavar="DAYS", help="How long it is valid, at most 397.")] = 90,
    folder: _Folder = None,
) -> None:
    """Issues a certificate, and prints the folder that its holder needs."""
    import sys

    from neurald.service.console.output import printable

    found = _authority(folder).issue(name, host, days)
    sys.stdout.write(printable(str(found)) + "\n")


@cert.command(
    "revoke",
    help="Revoke all certificates of a name.\n\nDaemons that use the authority's folder, or the folder "
    "of a name in it, refuse them within a second. Others need a copy of the new crl.pem.",
)
def revoke(
    name: _Name,
    folder: _Folder = None,
) -> None:
    """Revokes all certificates of a name."""
    from neurald.service.console.output import note

    authority = _authority(folder)
    count = authority.revoke(name)
    note(f"revoked {count} of {name}; copy {authority.folder / 'crl.pem'} to the daemons on other hosts")


@cert.command(
    "show",
    help="List the certificates that were issued, and whether they are valid.",
    short_help="List certificates, and whether they are valid.",
)
def show(
    folder: _Folder = None,
    json: JsonOption = False,
) -> None:
    """Lists the certificates that were issued, and whether they are valid."""
    from neurald.service.certificates.authority import soon_expiring
    from neurald.service.console.output import note, write_json, write_table

    found = _authority(folder).describe()
    if json:
        write_json(
            {
                "authority": {
                    "name": found.name,
                    "folder": str(found.folder),
                    "valid_until": found.valid_until.isoformat(),
                },
                "certificates": [
                    {
                        "name": each.name,
                        "serial": each.serial,
                        "hosts": list(each.hosts),
                        "valid_until": each.valid_until.isoformat(),
                        "state": each.state,
                    }
                    for each in found.certificates
                ],
            }
        )
        return
    rows = [
        (
            each.name,
            "daemon" if each.hosts else "client",
            ", ".join(each.hosts),
            each.state,
            f"{each.valid_until:%Y-%m-%d %H:%M} UTC",
            each.serial,
        )
        for each in found.certificates
    ]
    write_table(("name", "for", "hosts", "state", "valid until", "serial"), rows)
    note(f"authority {found.name} in {found.folder}, valid until {found.valid_until:%Y-%m-%d}")
    for each in soon_expiring(found.certificates, _WARN_DAYS):
        note(f"the certificate of {each.name} expires soon; issue a new one with: neurald cert issue")
