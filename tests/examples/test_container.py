"""The image and the Compose file agree with the command line, the configuration and each other."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from neurald.service.cli import app
from neurald.service.manager.settings.configuration import Flags, load_configuration

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "container"


def instructions() -> list[tuple[str, str]]:
    """Returns the instructions of the Containerfile, each with its arguments on one line."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = [line.split(None, 1) for line in joined.split("\n")]
    return [(name, " ".join(rest.split())) for name, rest in found]


def only(name: str, stage: int = -1) -> str:
    """Returns the arguments of the only instruction with a name in a stage of the build."""
    stages: list[list[tuple[str, str]]] = []
    for each in instructions():
        if each[0] == "FROM":
            stages.append([])
        if stages:
            stages[-1].append(each)
    (argument,) = (rest for each, rest in stages[stage] if each == name)
    return argument


@pytest.fixture(scope="module")
def compose() -> Any:
    yaml = pytest.importorskip("yaml", reason="reading YAML needs PyYAML, which mkdocs brings")
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


def check_command(arguments: list[str]) -> None:
    """Fails unless the command line accepts the arguments."""
    command = get_command(app).commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], list(arguments[1:]))


def test_every_instruction_is_one() -> None:
    known = {
        *("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME"),
        *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    assert {name for name, _ in instructions()} <= known


def test_the_image_does_not_run_as_root() -> None:
    assert only("USER") == "neurald"
    created = only("RUN")
    assert re.search(r"useradd --system --uid 990 --gid neurald .*neurald", created)
    assert "install -d -o neurald -g neurald -m 2755 /run/neurald" in created


def test_commands_of_the_image_exist() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["neurald"]
    check_command(json.loads(only("CMD")))
    options, health = only("HEALTHCHECK").split(" CMD ")
    assert all(re.fullmatch(r"--[a-z-]+=\d+s?", option) for option in shlex.split(options))
    assert json.loads(health)[0] == "neurald"
    check_command(json.loads(health)[1:])
    assert only("STOPSIGNAL") == "SIGTERM"


def test_copied_files_exist() -> None:
    sources = [rest.split() for name, rest in instructions() if name == "COPY"]
    for source in sources:
        if not source[0].startswith("--from="):
            assert all((ROOT / name).exists() for name in source[:-1])
    extra = re.search(r"'\.\[([\w,]+)\]'", only("RUN", stage=0))
    assert extra is not None
    for name in extra[1].split(","):
        assert re.search(rf"^{name} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def test_the_configuration_is_valid() -> None:
    found = load_configuration(FOLDER / "neurald.toml", Flags(system=True))
    assert list(found.drivers) == ["opencl"]
    assert (found.group, found.socket_mode) == ("neurald", "0660")
    assert found.drivers["opencl"].groups == ("neurald",)


def test_the_compose_file_uses_the_image(compose: Any) -> None:
    service, application = compose["services"]["neurald"], compose["services"]["application"]
    build = service["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    for each in (service, application):
        check_command(each["command"])
        assert each["image"] == "neurald"
        assert each["network_mode"] == "none"
    assert application["depends_on"]["neurald"]["condition"] == "service_healthy"


def test_the_service_has_the_gpu_and_the_application_its_sockets(compose: Any) -> None:
    service, application = compose["services"]["neurald"], compose["services"]["application"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert "deploy" not in application
    assert "sockets:/run/neurald" in service["volumes"]
    assert application["volumes"] == ["sockets:/run/neurald:ro"]
    # The group of the image, which the configuration admits.
    assert application["group_add"] == ["990"]
    assert not application["user"].startswith("0")
    named = {mount.partition(":")[0] for each in compose["services"].values() for mount in each["volumes"]}
    assert named == set(compose["volumes"])


def test_running_calls_have_time_to_finish(compose: Any) -> None:
    service = compose["services"]["neurald"]
    grace_s = float(service["stop_grace_period"].removesuffix("s"))
    assert grace_s > (load_configuration(FOLDER / "neurald.toml").drivers["opencl"].drain_s or 0)
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
