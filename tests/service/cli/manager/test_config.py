"""`neurald config` shows values as the configuration file has them."""

from pathlib import Path

from support.daemon.command_line import invoke, invoke_json


def test_values_are_shown_as_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "neurald.toml"
    file.write_text(
        'autostart = false\n[drivers.cpu]\nusers = ["ann", "bob"]\n[drivers.cpu.environment]\nA = "1"\n'
    )
    found = invoke("config", "--config", file)
    assert found.exit_code == 0, found.stderr
    rows = {line.split("  ")[0]: line for line in found.stdout.splitlines()}
    for setting, value in (
        ("autostart", "false"),
        ("drivers.cpu.users", "ann, bob"),
        ("drivers.cpu.groups", "-"),
        ("drivers.cpu.environment", "A 1"),
        ("drivers.cpu.tls", "-"),
    ):
        assert rows[setting].split(maxsplit=1)[1].startswith(f"{value} "), rows[setting]
    for of_python in ("False", "True", "None", "[", "{", "'"):
        assert of_python not in found.stdout
    assert invoke_json("config", "--config", file)["autostart"] is False
