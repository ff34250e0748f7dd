"""Repositories, and names that would leave them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.folders import Repository, open_beneath


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


def test_the_first_folder_hides_models_of_others(root: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "second/plain.tflite").write_bytes(b"second")
    (tmp_path / "second/more.tflite").write_bytes(b"more")
    both = Repository([root, tmp_path / "second"])
    found = both.models()
    assert content(both.open_model(found["plain"], 1, "")) == b"plain"
    assert content(both.open_model(found["more"], 1, "")) == b"more"
    both.close()
    with pytest.raises(BadState, match="missing"):
        Repository([tmp_path / "missing"])
