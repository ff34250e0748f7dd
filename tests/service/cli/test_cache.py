import io
import json
import sys
from pathlib import Path

import pytest
from support.daemon.command_line import error_of, invoke, invoke_json
from support.daemon.processes import running_daemon
from support.devices.cached import ORIGIN, artifact, entry_parts
from support.devices.caching import CachingDevice
from support.models.cached import MODELS
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.frontend.variants import variant_uses
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.cache.entry import Origin
from neurald.hal.cache.store import MAX_BYTES_VARIABLE, Cache
from neurald.hal.process.threads.postponed import POSTPONED
from neurald.service import demo
from neurald.service.cli import app
from neurald.service.cli.cache import _age

MODEL = Path(demo.__file__).parent / "digits.tflite"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory of an empty cache, which is the user's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "neurald"


@pytest.fixture
def filled(directory: Path) -> Path:
    """Returns the directory of a cache with three entries."""
    for number in range(3):
        Cache(directory).store(entry_parts(graphs=str(number)), artifact(bytes(1000)), ORIGIN)
    return directory


def entry(directory: Path, number: int) -> Path:
    return directory / entry_parts(graphs=str(number)).key().hex()


def flip_last(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def damage(directory: Path, number: int) -> None:
    flip_last(entry(directory, number) / "head")


class TestLs:
    def test_nothing(self, directory: Path) -> None:
        document = invoke_json("cache", "ls")
        assert document == {
            "directory": str(directory),
            "size_bytes": 0,
            "limit_bytes": 2 << 30,
            "entries": [],
        }
        assert invoke("cache", "ls").stdout.startswith("0 entries, 0 B of 2.15 GB, in ")
        assert not directory.exists()

    def test_json(self, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(MAX_BYTES_VARIABLE, "1000000")
        document = invoke_json("cache", "ls")
        assert document["limit_bytes"] == 1_000_000
        assert document["size_bytes"] == sum(found["size_bytes"] for found in document["entries"]) > 9000
        found = {found["key"]: found for found in document["entries"]}
        assert found.keys() == {entry(filled, number).name for number in range(3)}
        one = found[entry(filled, 0).name]
        assert one["device"] == "device"
        assert one["device_version"] == "1"
        assert one["preference"] == one["priority"] + "_POWER" == "LOW_POWER"
        assert one["threads"] is None
        assert one["has_token"] is False
        assert one["model"] == "a model"
        assert one["compile_ms"] == 12.5
        assert one["created"] == "2001-09-09T01:46:40+00:00"
        assert one["damage"] == ""

    def test_ages(self) -> None:
        for seconds, text in (
            (-5, "just now"),
            (59.9, "just now"),
            (60, "1 min ago"),
            (7199, "1 h ago"),
            (10**6, "11 d ago"),
        ):
            assert _age(seconds) == text

    def test_table(self, filled: Path) -> None:
        result = invoke("cache", "ls")
        assert result.exit_code == 0, result.stderr
        rows = [line for line in result.stdout.splitlines() if "a model" in line]
        assert len(rows) == 3
        assert all("12.5" in row for row in rows)
        assert "damaged" not in result.stdout
        assert all(" ago " in row or "just now" in row for row in rows)
        assert {row.split()[0] for row in rows} == {entry(filled, number).name[:12] for number in range(3)}
        assert result.stdout.splitlines()[-1].startswith("3 entries, ")

    def test_the_output_contains_no_control_sequences(self, directory: Path) -> None:
        origin = Origin(model="\x1b[31mred", compile_ms=1.0, created_s=0.0)
        Cache(directory).store(entry_parts(), artifact(), origin)
        assert "\x1b" not in invoke("cache", "ls").stdout

    def test_a_manifest_that_cannot_be_believed(self, filled: Path) -> None:
        (entry(filled, 1) / "head").write_text("nonsense")
        found = {found["key"]: found for found in invoke_json("cache", "ls")["entries"]}
        one = found[entry(filled, 1).name]
        assert one["device"] is one["model"] is one["compile_ms"] is None
        assert one["damage"] == "its manifest is damaged, or of another installation"
        text = invoke("cache", "ls").stdout
        assert "damaged: its manifest is damaged, or of another installation (1 entry)" in text
        (row,) = [line for line in text.splitlines() if line.startswith(one["key"][:12])]
        assert row.split()[1:3] == ["-", "damaged"]

    def test_a_narrow_terminal(self, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (entry(filled, 1) / "head").write_text("nonsense")
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
        for name, value in (("COLUMNS", "80"), ("TERM", "dumb")):
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as caught:
            app(["cache", "ls", "--dir", str(filled)])
        assert not caught.value.code
        text = stream.getvalue()
        assert max(len(line) for line in text.splitlines() if str(filled) not in line) <= 80
        assert "…" not in text
        assert sum("a model" in line for line in text.splitlines()) == 2
        assert "damaged: its manifest is damaged, or of another installation (1 entry)" in text

    def test_another_directory(self, filled: Path, tmp_path: Path) -> None:
        assert invoke_json("cache", "ls", "--dir", tmp_path / "other")["entries"] == []
        assert len(invoke_json("cache", "ls", "--dir", filled)["entries"]) == 3

    def test_no_directory(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert "is not a directory" in error_of("cache", "ls", "--dir", tmp_path / "file")


class TestVerify:
    def test_all_is_well(self, filled: Path) -> None:
        document = invoke_json("cache", "verify")
        assert [found["damage"] for found in document["entries"]] == [""] * 3
        assert invoke("cache", "verify").stdout.endswith("no entry is damaged\n")

    def test_wrong_arguments(self, filled: Path) -> None:
        damage(filled, 1)
        (entry(filled, 2) / "head").unlink()
        result = invoke("cache", "verify", "--json")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: 2 of 3 entries are damaged")
        found = {found["key"]: found["damage"] for found in json.loads(result.stdout)["entries"]}
        assert found[entry(filled, 0).name] == ""
        assert found[entry(filled, 1).name] == "its content has changed since it was written"
        assert found[entry(filled, 2).name] == "No such file or directory"
        table = invoke("cache", "verify").stdout
        assert "damaged: its content has changed since it was written" in table


class TestPrune:
    def test_prune_by_key(self, filled: Path) -> None:
        key = entry(filled, 1).name
        assert invoke_json("cache", "prune", key[:12])["removed"] == [key]
        assert sorted(path.name for path in filled.iterdir() if len(path.name) == len(key)) == sorted(
            entry(filled, number).name for number in (0, 2)
        )
        result = invoke("cache", "prune", key)
        assert result.exit_code == 2
        assert "no entries have keys" in " ".join(result.stderr.split())

    def test_prune_requires_a_selection(self, filled: Path) -> None:
        result = invoke("cache", "prune")
        assert result.exit_code == 2
        assert "nothing selected; use --all" in result.stderr
        assert len(invoke_json("cache", "ls")["entries"]) == 3

    def test_all(self, filled: Path) -> None:
        document = invoke_json("cache", "prune", "--all")
        assert len(document["removed"]) == 3
        assert document["entries"] == document["size_bytes"] == 0
        assert document["freed_bytes"] > 9000
        assert invoke("cache", "prune", "--all").stdout.startswith("0 removed; 0 entries")

    def test_damaged_ones(self, filled: Path) -> None:
        damage(filled, 1)
        assert invoke_json("cache", "prune", "--damaged")["removed"] == [entry(filled, 1).name]
        assert invoke("cache", "verify").exit_code == 0

    def test_by_size(self, filled: Path) -> None:
        document = invoke_json("cache", "prune", "--max-mb", "0.009")
        assert len(document["removed"]) == 1
        assert document["size_bytes"] <= 9000

    def test_by_age(self, filled: Path) -> None:
        assert invoke_json("cache", "prune", "--unused-days", "1")["removed"] == []
        assert len(invoke_json("cache", "prune", "--unused-days", "0")["removed"]) == 3

    @pytest.mark.parametrize("option", ["--max-mb", "--unused-days"])
    def test_less_than_nothing(self, filled: Path, option: str) -> None:
        assert invoke("cache", "prune", option, "-1").exit_code == 2


def test_a_benchmark_reports_the_role_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (*nd.devices(), CachingDevice())
    monkeypatch.setattr(nd, "devices", lambda: both)
    options = ("--device", "caching", "--runs", "1", "--min-secs", "0", "--warmup-runs", "0")
    assert "on caching (cache miss: first use);" in invoke("benchmark", MODEL, *options).stdout
    assert "on caching (cache hit);" in invoke("benchmark", MODEL, *options).stdout
    (step,) = invoke_json("benchmark", MODEL, *options)["steps"]
    assert step["cache"] == "hit"


class TestWarm:
    @pytest.fixture(autouse=True)
    def device(self, monkeypatch: pytest.MonkeyPatch) -> CachingDevice:
        device = CachingDevice()
        both = (*nd.devices(), device)
        monkeypatch.setattr(nd, "devices", lambda: both)
        return device

    def test_cold_and_then_warm(self, device: CachingDevice, directory: Path) -> None:
        (first,) = invoke_json("cache", "warm", MODEL, "--device", "caching")["models"]
        (again,) = invoke_json("cache", "warm", MODEL, "--device", "caching")["models"]
        assert first["model"] == again["model"] == str(MODEL)
        (cold,), (hit,) = first["steps"], again["steps"]
        assert [cold["cache"], cold["reason"]] == ["miss", "first use"]
        assert [hit["cache"], hit["reason"]] == ["hit", ""]
        for step in (cold, hit):
            assert step["device"] == "caching"
            assert step["operations"] > 1
            assert step["cold_ms"] > 0
            assert step["warm_ms"] > 0
            assert (directory / step["key"]).is_dir()
        assert len(device.compiled) == 1

    def test_table(self) -> None:
        result = invoke("cache", "warm", MODEL, MODEL, "--device", "caching")
        assert result.exit_code == 0, result.stderr
        first, second = (line for line in result.stdout.splitlines() if line.startswith(str(MODEL)))
        assert "first use" in first
        assert " miss " in first
        assert " hit " in second

    def test_a_device_that_has_nothing_to_cache(self, directory: Path) -> None:
        (document,) = invoke_json("cache", "warm", MODEL, "--device", "reference")["models"]
        (step,) = document["steps"]
        assert step["cache"] == "off"
        assert step["reason"] == "the device needs no cache files"
        assert step["warm_ms"] is None
        POSTPONED.finish_all()
        # Only the converted file, and its graphs, are in the cache.
        manifests = [entry.manifest for entry in Cache(directory).entries()]
        assert [each and each.parts.device for each in manifests] == 2 * ["conversion of .tflite files"]

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        result = invoke("cache", "warm", MODEL, "--device", "caching")
        assert result.exit_code == 1
        assert " off " in result.stdout
        assert f"error: not cached, and compiled again at each use: {MODEL} on caching: " in result.stderr

    def test_no_such_model_or_device(self, tmp_path: Path) -> None:
        assert "no.tflite" in error_of("cache", "warm", tmp_path / "no.tflite")
        assert "there is no device 'x'" in error_of("cache", "warm", MODEL, "--device", "x")

    @pytest.mark.slow
    def test_through_a_daemon(self) -> None:
        with running_daemon("support.devices.caching:create") as address:
            for outcome in ("miss", "hit"):
                (document,) = invoke_json("cache", "warm", MODEL, "--device", address)["models"]
                assert [step["cache"] for step in document["steps"]] == [outcome]

    def test_as_the_application_asks(self, device: CachingDevice, tmp_path: Path) -> None:
        token, directory = bytes(range(32)), tmp_path / "application"
        options = ("--preference", "low_power", "--priority", "HIGH", "--threads", "2")
        place = ("--dir", directory, "--token", token.hex())
        (document,) = invoke_json("cache", "warm", MODEL, "--device", "caching", *options, *place)["models"]
        assert [step["cache"] for step in document["steps"]] == ["miss"]
        builder = nd.CompilationBuilder(nd.load_tflite(MODEL), [device], 2)
        builder.set_preference(nd.Preference.LOW_POWER)
        builder.set_priority(nd.Priority.HIGH)
        builder.set_caching(directory, token)
        assert builder.finish().report.steps[0].cache.value == "hit"

    @sweep(
        ("options", "message"),
        [
            (("--preference", "fast"), "low_power, fast_single_answer or sustained_speed"),
            (("--priority", "0"), "low, medium or high"),
            (("--token", "12"), "64 hexadecimal digits"),
            (("--dir", "x"), "needs --token"),
        ],
    )
    def test_wrong_options(self, options: tuple[str, ...], message: str) -> None:
        result = invoke("cache", "warm", MODEL, *options)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.replace("│", " ").split())

    def test_shapes_that_the_model_leaves_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, _ = MODELS["unspecified"]
        monkeypatch.setattr(nd, "load_tflite", lambda *_, **__: model())
        monkeypatch.setattr(nd, "devices", lambda: (CpuDevice(),))
        # Frequent shapes would get code of their own in the background.
        monkeypatch.setattr(variant_uses, "FREQUENT_USES", 1 << 30)
        found = []
        for options in (
            (),
            ("--shape", "input_0=4x3"),
            ("--shape", "input_0=4x3"),
            ("--shape", "input_0=5x3"),
        ):
            result = invoke("cache", "warm", "any.tflite", "--json", *options)
            assert result.exit_code == 0, result.stderr
            assert ("use --shape to compile" in result.stderr) == (not options)
            (step,) = json.loads(result.stdout)["models"][0]["steps"]
            found.append((step["cache"], step["warm_ms"] is not None))
        # The code for four rows is that for any other number from two on.
        assert found == [("miss", False), ("miss", True), ("hit", True), ("hit", True)]
        variants = {entry["variant"] for entry in invoke_json("cache", "ls")["entries"]}
        kernels = {name for name in variants if name.startswith("kernels ")}
        assert variants - kernels == {"open 0"}
        assert "does not match input" in error_of("cache", "warm", "any.tflite", "--shape", "input_0=4x7")
