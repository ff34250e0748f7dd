"""The conformance suite reaches servers that want to know their clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.certificates import issue, make_authority
from support.daemon.processes import bare_environment, run_command
from support.inference import zoo
from support.inference.serving import Serving

from neurald.hal.errors import BadData, UnavailableDevice
from neurald.hal.rpc.transport.tls_files import TlsFiles
from neurald.service.conformance.result import Outcome
from neurald.service.inference.conformance.server_access import ServerAccess
from neurald.service.inference.conformance.suite import connect, run_checks

pytest.importorskip("cryptography", reason="the extra [tls] is not installed")

TOKEN = "b7e41d"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsFiles, TlsFiles]:
    authority = make_authority(tmp_path_factory.mktemp("authority") / "own")
    return issue(authority, "server", ["127.0.0.1"]), issue(authority, "client")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "pair", zoo.addition())
    return folder


@pytest.fixture(scope="module")
def encrypted(repository: Path, tls: tuple[TlsFiles, TlsFiles]) -> Iterator[Serving]:
    files, _ = tls
    with Serving(
        repository,
        tls_certificate=str(files.certificate),
        tls_key=str(files.key),
        tls_authority=str(files.authority),
    ) as serving:
        yield serving.wait_ready()


def failed(access: ServerAccess) -> list[str]:
    client = connect(access)
    try:
        results = list(run_checks(client, "pair", 20))
    finally:
        client.close()
    return [each.label for each in results if each.outcome is Outcome.FAILED]


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_a_service_that_wants_certificates_passes(
    encrypted: Serving, tls: tuple[TlsFiles, TlsFiles], scheme: str
) -> None:
    target = encrypted.grpc if scheme == "grpcs" else encrypted.http
    access = ServerAccess.of(f"{scheme}://{target}", tls=tls[1])
    assert access.url == f"{scheme}://{target}"
    assert failed(access) == []
    # Nobody whose authority is not known is believed, nor anybody without a certificate.
    with pytest.raises(UnavailableDevice):
        failed(ServerAccess.of(f"{scheme}://{target}"))


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_service_that_wants_a_token_passes(repository: Path, tmp_path: Path, scheme: str) -> None:
    secret = tmp_path / "token"
    secret.touch(0o600)
    secret.write_text(TOKEN)
    with Serving(repository, token=TOKEN) as serving:
        serving.wait_ready()
        url = f"{scheme}://{serving.grpc if scheme == 'grpc' else serving.http}"
        assert failed(ServerAccess.of(url, TOKEN)) == []
        with pytest.raises(UnavailableDevice, match="Bearer TOKEN"):
            failed(ServerAccess.of(url, "another"))
        arguments = ["conformance", "--service", url, "--count", "0", "--auth-token-file", str(secret)]
        found = run_command(arguments, bare_environment(), timeout_s=120)
        assert found.returncode == 0, found.stderr


def test_urls_and_secrets_that_do_not_fit_are_refused(tls: tuple[TlsFiles, TlsFiles]) -> None:
    for url in ("ftp://host:1", "grpc://", "http://host/path", "host:1"):
        with pytest.raises(BadData, match="is not grpc://host:port"):
            ServerAccess.of(url)
    with pytest.raises(BadData, match="https://host:1 is with it"):
        ServerAccess.of("http://host:1", tls=tls[1])
    with pytest.raises(BadData, match="without encryption; use grpcs://host:1"):
        ServerAccess.of("grpc://host:1", TOKEN)
    assert not ServerAccess.of("https://host:1").headers
