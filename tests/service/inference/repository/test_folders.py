"""Repositories, and names that would leave them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.folders import (
    Repository,
    check_name,
    given_files,
    open_beneath,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for path in ("a/1", "a/3", "a/notes", "a/0", "b/2"):
        (root / path).mkdir(parents=True)
    (root / "a/1/model.tflite").write_bytes(b"one")
    (root / "a/3/other.tflite").write_bytes(b"three")
    (root / "a/config.pbtxt").write_text("max_batch_size: 1")
    (root / "plain.tflite").write_bytes(b"plain")
    (root / "README").write_text("no model")
    (tmp_path / "secret.tflite").write_bytes(b"secret")
    return root


@pytest.fixture
def repository(root: Path) -> Iterator[Repository]:
    found = Repository([root])
    yield found
    found.close()


def content(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def test_models_are_folders_and_files(repository: Repository) -> None:
    found = repository.models()
    assert {name: each.versions for name, each in found.items()} == {"a": (1, 3), "b": (2,), "plain": (1,)}
    assert content(repository.open_model(found["a"], 1, "")) == b"one"
    assert content(repository.open_model(found["a"], 3, "other.tflite")) == b"three"
    assert content(repository.open_model(found["plain"], 1, "")) == b"plain"
    assert repository.config_text(found["a"]) == "max_batch_size: 1"
    assert repository.config_text(found["b"]) == repository.config_text(found["plain"]) == ""


def test_folders_without_versions_and_configuration_are_no_models(repository: Repository, root: Path) -> None:
    (root / "__pycache__").mkdir()
    (root / "__pycache__/a.pyc").write_bytes(b"code")
    (root / "plain/data").mkdir(parents=True)
    (root / "coming").mkdir()
    (root / "coming/config.pbtxt").write_text("max_batch_size: 1")
    found = repository.models()
    assert {name: each.versions for name, each in found.items()} == {
        "a": (1, 3),
        "b": (2,),
        "coming": (),
        "plain": (1,),
    }
    assert not found["plain"].is_folder
    with pytest.raises(ServiceError, match="neither a version") as caught:
        repository.find("__pycache__")
    assert caught.value.status is Status.NOT_FOUND


def test_files_that_are_no_models_are_named(repository: Repository, root: Path) -> None:
    assert list(repository.unserved()) == []
    (root / "with space.tflite").write_bytes(b"one")
    (root / "within.tflite").symlink_to("plain.tflite")
    (root / "away.tflite").symlink_to("../secret.tflite")
    (root / "absolute.tflite").symlink_to("/etc/passwd")
    (root / "broken.tflite").symlink_to("gone.tflite")
    outside = "it leads out of the repository"
    assert dict(repository.unserved()) == {
        "absolute.tflite": outside,
        "away.tflite": outside,
        "broken.tflite": "No such file or directory",
        "with space.tflite": "a model's name has up to 128 letters, digits, '_', '-' and '.'",
    }
    assert repository.models().keys() == {"a", "b", "plain", "within"}


def test_a_version_without_its_file_is_an_error(repository: Repository) -> None:
    found = repository.find("a")
    with pytest.raises(ServiceError, match=r"has no file a/3/model\.tflite; config\.pbtxt has the name"):
        repository.open_model(found, 3, "")
    with pytest.raises(ServiceError, match=r"has no file a/3/none\.tflite$"):
        repository.open_model(found, 3, "none.tflite")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../secret", "/etc/passwd", "a/1", "a\0b", "ü", "x" * 129, ".hidden", "a\n"]
)
def test_names_that_are_none_are_refused(repository: Repository, name: str) -> None:
    with pytest.raises(ServiceError) as caught:
        repository.find(name)
    assert caught.value.status is Status.INVALID


def test_links_that_leave_the_repository_are_not_followed(repository: Repository, root: Path) -> None:
    (root / "out.tflite").symlink_to("../secret.tflite")
    (root / "absolute.tflite").symlink_to(root.parent / "secret.tflite")
    (root / "folder").symlink_to("..")
    (root / "c").mkdir()
    (root / "c/1").symlink_to("../..")
    (root / "inside.tflite").symlink_to("plain.tflite")
    assert "inside" in repository.models()
    for name in ("out", "absolute", "folder"):
        with pytest.raises(ServiceError, match="no such model"):
            repository.find(name)
    found = repository.find("c")
    with pytest.raises(ServiceError) as caught:
        repository.open_model(found, 1, "secret.tflite")
    assert str(root) not in str(caught.value)
    with pytest.raises(ServiceError, match="not the name"):
        repository.open_model(repository.find("a"), 1, "../../plain.tflite")
    descriptor = os.open(root, os.O_RDONLY)
    with pytest.raises(OSError, match="link"):
        open_beneath(descriptor, "../secret.tflite", os.O_RDONLY)
    os.close(descriptor)


def test_configurations_that_are_no_text_are_refused(repository: Repository, root: Path) -> None:
    found = repository.find("b")
    (root / "b/config.pbtxt").write_bytes(b"\xff")
    with pytest.raises(ServiceError, match="UTF-8"):
        repository.config_text(found)
    (root / "b/config.pbtxt").write_bytes(b" " * (2 << 20))
    with pytest.raises(ServiceError, match="more than"):
        repository.config_text(found)
    (root / "b/config.pbtxt").unlink()
    os.mkfifo(root / "b/config.pbtxt")
    with pytest.raises(ServiceError, match="regular"):
        repository.config_text(found)


def test_models_of_two_folders_are_told_from_those_of_one(root: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "plain.tflite").write_bytes(b"second")
    (second / "more.tflite").write_bytes(b"more")
    both = Repository([root, second, root, second])
    found = both.models()
    assert {name for name, each in found.items() if each.is_ambiguous} == {"plain"}
    assert content(both.open_model(found["more"], 1, "")) == b"more"
    states = both.states()
    (second / "plain.tflite").unlink()
    assert not both.find("plain").is_ambiguous
    now = both.states()
    assert {name for name in states if states[name] != now[name]} == {"plain"}
    both.close()


def test_missing_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadState, match="missing"):
        Repository([tmp_path / "missing"])


@pytest.mark.parametrize(
    "name", ["", " ", "\t\n", "../a", "a/../b", "/etc/passwd", "a/", "a\\b", "..", " .. "]
)
def test_names_that_clients_may_not_load(name: str) -> None:
    with pytest.raises(ServiceError, match=r"cannot be empty|path traversal characters") as caught:
        check_name(name)
    assert caught.value.status is Status.INVALID


def test_files_that_a_client_gives(repository: Repository) -> None:
    files = {"1/model.tflite": b"given", "7/model.tflite": b"newest", "labels.txt": b"cat\n dog \n"}
    found = given_files("a", files, "{}")
    assert found.versions == (1, 7)
    assert content(repository.open_model(found, 7, "")) == b"newest"
    assert repository.labels(found, "labels.txt") == ("cat", "dog")
    assert repository.labels(found, "missing.txt") == ()
    assert repository.config_text(found) == ""
    descriptor = repository.open_model(found, 1, "model.tflite")
    with pytest.raises(OSError, match="not permitted"):
        os.pwrite(descriptor, b"x", 0)
    os.close(descriptor)
    with pytest.raises(ServiceError, match="there is no file 1/other"):
        repository.open_model(found, 1, "other")


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "1/../a", "0/model.tflite", "a/b/c", "", "1/", "/1/a", "1/" + "a" * 129]
)
def test_files_outside_of_a_model_are_refused(path: str) -> None:
    with pytest.raises(ServiceError, match="failed to load 'a', failed to poll from model repository"):
        given_files("a", {path: b""}, "{}")


def test_files_need_a_configuration_and_a_name() -> None:
    with pytest.raises(ServiceError, match="files need a configuration"):
        given_files("a", {"1/model.tflite": b""}, None)
    with pytest.raises(ServiceError, match="a model's name has"):
        given_files("ü", {"1/model.tflite": b""}, "{}")


def test_labels_are_lines_of_a_file_in_the_folder(repository: Repository, root: Path) -> None:
    (root / "a/labels.txt").write_text("cat\ndog\n")
    (root / "a/out.txt").symlink_to("../../secret.tflite")
    found = repository.find("a")
    assert repository.labels(found, "labels.txt") == ("cat", "dog")
    for name in ("../a/labels.txt", "out.txt"):
        with pytest.raises(ServiceError):
            repository.labels(found, name)


def test_the_state_changes_with_the_files(repository: Repository, root: Path) -> None:
    states = [repository.state_of("a"), repository.state_of("plain")]
    assert [repository.state_of("a"), repository.state_of("plain")] == states
    for path in ("a/config.pbtxt", "a/3/other.tflite", "plain.tflite"):
        (root / path).write_bytes(b"something else")
        state = repository.state_of(path.partition("/")[0].removesuffix(".tflite"))
        assert state not in states
        states.append(state)
    assert repository.state_of("missing") == ()
