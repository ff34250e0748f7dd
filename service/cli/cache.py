"""The command `neurald cache`, which lists, verifies, removes and creates cache entries."""

import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neurald.service.cli.options.completion import cache_keys, device_names, model_files
from neurald.service.cli.options.model import PreferenceOption, PriorityOption
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neurald.hal.cache.store import Cache, EntryStatus

#: Number of displayed digits of a key, which is enough to distinguish entries.
_KEY_SHOWN = 12
_MB = 1e6
_DAY_S = 86_400.0

_Directory = Annotated[
    Path | None,
    typer.Option("--dir", metavar="FOLDER", help="Use the cache in this folder instead of the user's own."),
]

cache = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@cache.command(help="List the entries, the last used first.")
def ls(directory: _Directory = None, json: JsonOption = False) -> None:
    """Lists every entry with the contents of its manifest."""
    found = _open(directory)
    _write(found, found.entries(), json)


@cache.command(help="Read and check every entry. The exit status is 1 if one is damaged.")
def verify(directory: _Directory = None, json: JsonOption = False) -> None:
    """Checks every entry as if it were used, and reports damaged ones."""
    from neurald.hal.errors import BadData
    from neurald.service.console.output import status, write_line

    found = _open(directory)
    with status("reading the cache", quiet=json):
        entries = found.verify()
    _write(found, entries, json)
    damaged = sum(bool(entry.damage) for entry in entries)
    if damaged:
        are = "is" if damaged == 1 else "are"
        raise BadData(
            f"{damaged} of {len(entries)} entries {are} damaged and will not be used; "
            "`neurald cache prune --damaged` removes them"
        )
    if not json:
        write_line("no entry is damaged")


@cache.command(help="Remove entries, and files that dead processes left.")
def prune(
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=cache_keys,
            metavar="KEY",
            help="The entries with these keys, or with keys that start like that.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All entries.")] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="The entries that `verify` finds damaged.")
    ] = False,
    unused_days: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Entries that were not used for this many days."),
    ] = None,
    max_mb: Annotated[
        float | None,
        typer.Option(
            metavar="MB", min=0, help="The least recently used entries, until the others have this size."
        ),
    ] = None,
    directory: _Directory = None,
    json: JsonOption = False,
) -> None:
    """Removes the entries that the options select."""
    from neurald.service.console.output import write_json, write_line

    if not (everything or damaged or keys) and unused_days is None and max_mb is None:
        raise typer.BadParameter("nothing selected; use --all, --damaged, --unused-days, --max-mb or keys")
    found = _open(directory)
    present = found.entries()
    before = _total(present)
    removed = [key for key in _named(keys or (), present) if found.remove(key)]
    removed += [
        entry.key
        for entry in (found.verify() if damaged and not everything else ())
        if entry.damage and found.remove(entry.key)
    ]
    limit_bytes = None if max_mb is None else int(max_mb * _MB)
    removed += found.prune(
        limit_bytes=0 if everything else limit_bytes,
        unused_s=None if unused_days is None else unused_days * _DAY_S,
    )
    left = found.entries()
    document = {
        "directory": str(found.path),
        "removed": removed,
        "freed_bytes": max(0, before - _total(left)),
        "entries": len(left),
        "size_bytes": _total(left),
    }
    if json:
        write_json(document)
    else:
        write_line(f"{len(removed)} removed; {_summary(found, left)}")


@cache.command(
    help="Compile models now, so that they are in the cache when they are needed. The exit status is 1 "
    "if one could not be cached.",
    short_help="Compile models before they are needed.",
)
def warm(
    models: Annotated[
        list[Path],
        typer.Argument(
            autocompletion=model_files, metavar="MODEL", help=".tflite files.", show_default=False
        ),
    ],
    device: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=device_names,
            metavar="NAME",
            help="Compile for this device only: a name from `neurald devices`, a driver, module:factory, "
            "or the address of a daemon. May be repeated.",
        ),
    ] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compile this signature of the files.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="CPU threads that runs will use. [default: the driver's choice]"
        ),
    ] = None,
    preference: PreferenceOption = "fast_single_answer",
    priority: PriorityOption = "medium",
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="FOLDER", help="Warm the cache in this folder; requires --token."),
    ] = None,
    token: Annotated[
        str, typer.Option(metavar="HEX", help="The application's cache token, 64 hexadecimal digits.")
    ] = "",
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHAPE",
            help="The shape of an input that the model leaves unspecified, such as x=1x224x224x3: the "
            "model is run once with random inputs. May be repeated.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compiles each model and reports the effect of the cache on later compilations.

    Preference, priority, token, directory, threads and shapes must be those of the application.
    """
    import neurald as nd
    from neurald.hal.errors import OpFailed
    from neurald.service.console.device_choice import find_devices
    from neurald.service.console.members import member_of
    from neurald.service.console.output import note, status, write_json
    from neurald.service.tensors.arrays import input_slots, random_inputs
    from neurald.service.tensors.shapes import default_shape_remarks, parse_shapes

    asked = member_of(nd.Preference, preference, "--preference")
    rank = member_of(nd.Priority, priority, "--priority")
    secret = _token(token)
    if directory is not None and not secret:
        raise typer.BadParameter("--dir needs --token; applications set both or neither")
    chosen = find_devices(device or ())
    warmed, uncached = [], []
    for path in models:
        with status(f"compiling {path.name}", quiet=json):
            model = nd.load_tflite(path, signature=signature)
            slots = input_slots(model)
            shapes = parse_shapes(shape or (), slots)
            steps = nd.warm(
                model,
                chosen,
                threads,
                preference=asked,
                priority=rank,
                directory=directory,
                token=secret,
                inputs=random_inputs(slots, shapes) if shapes else None,
            )
        if shapes:
            for remark in default_shape_remarks(slots, shapes):
                note(remark)
        elif any(not slot.operand.is_fully_specified for slot in slots):
            note(f"{path} leaves input shapes open; use --shape to compile for the shapes of the application")
        warmed.append({"model": str(path), "steps": [_step(step) for step in steps]})
        uncached += [f"{path} on {step.device}: {step.reason}" for step in steps if step.is_uncached]
    if json:
        write_json({"models": warmed})
    else:
        _show_warmed(warmed)
    if uncached:
        raise OpFailed(f"not cached, and compiled again at each use: {'; '.join(uncached)}")


def _token(text: str) -> bytes:
    if text and not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise typer.BadParameter(f"--token has {len(text)} characters; expected 64 hexadecimal digits")
    return bytes.fromhex(text)


def _open(directory: Path | None) -> "Cache":
    from neurald.hal.cache.store import Cache, default_directory

    return Cache(default_directory() if directory is None else directory)


def _named(keys: "Sequence[str]", entries: "list[EntryStatus]") -> list[str]:
    """Returns the keys of the entries that are named by at least the start of their keys.

    Raises:
        BadParameter: no entry has such a key, or several have.
    """
    named = []
    for start in keys:
        matching = [entry.key for entry in entries if start and entry.key.startswith(start)]
        if len(matching) != 1:
            raise typer.BadParameter(
                f"{len(matching) or 'no'} entries have keys that start with {start!r}; `neurald cache ls --json` "
                "lists the keys"
            )
        named += matching
    return list(dict.fromkeys(named))


def _total(entries: "list[EntryStatus]") -> int:
    return sum(entry.size_bytes for entry in entries)


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"


def _summary(found: "Cache", entries: "list[EntryStatus]") -> str:
    from neurald.hal.wording import sized
    from neurald.service.console.output import printable

    return (
        f"{_entries(len(entries))}, {sized(_total(entries))} of {sized(found.limit_bytes)}, "
        f"in {printable(str(found.path))}"
    )


def _write(found: "Cache", entries: "list[EntryStatus]", json: bool) -> None:
    from neurald.hal.wording import sized
    from neurald.service.console.output import write_json, write_line, write_table

    ordered = sorted(entries, key=lambda entry: -entry.last_use_s)
    described = [_describe(entry) for entry in ordered]
    if json:
        document = {
            "directory": str(found.path),
            "size_bytes": _total(entries),
            "limit_bytes": found.limit_bytes,
            "entries": described,
        }
        write_json(document)
        return
    # Nearly all are sound, so why others are not is below the table, where there is room for it.
    columns = ["key", "device", "model", "size", "compile ms", "last use"]
    rows = [
        [
            entry["key"][:_KEY_SHOWN],
            entry["device"] or "-",
            ", ".join(filter(None, (entry["damage"] and "damaged", entry["model"]))) or "-",
            sized(entry["size_bytes"]),
            "-" if entry["compile_ms"] is None else f"{entry['compile_ms']:.1f}",
            # An age needs one line of a narrow terminal; --json has the full timestamp.
            _age(time.time() - used_s),
        ]
        for entry, used_s in zip(described, (each.last_use_s for each in ordered), strict=True)
    ]
    if rows:
        write_table(columns, rows, right=columns[3:6], shorten=["device"], below="model")
    for reason, count in Counter(entry["damage"] for entry in described if entry["damage"]).items():
        write_line(f"damaged: {reason} ({_entries(count)})")
    write_line(_summary(found, entries))


def _age(seconds: float) -> str:
    """Returns text such as `5 min ago`."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{int(seconds // length_s)} {unit} ago"
    return "just now"


def _describe(entry: "EntryStatus") -> dict[str, Any]:
    manifest = entry.manifest
    document: dict[str, Any] = {
        "key": entry.key,
        "size_bytes": entry.size_bytes,
        "last_use": _moment(entry.last_use_s),
        "damage": entry.damage,
    }
    parts, origin = (None, None) if manifest is None else (manifest.parts, manifest.origin)
    for name in ("device", "device_version", "preference", "priority", "threads", "neurald", "variant"):
        document[name] = None if parts is None else getattr(parts, name)
    document["has_token"] = None if parts is None else bool(parts.token)
    document["model"] = None if origin is None else origin.model
    document["compile_ms"] = None if origin is None else origin.compile_ms
    document["created"] = None if origin is None else _moment(origin.created_s)
    return document


def _moment(seconds: float) -> str:
    """Formats a time of `time.time()` as ISO 8601."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _step(step: Any) -> dict[str, Any]:
    return {
        "device": step.device,
        "operations": step.operations,
        "cache": step.cache.value,
        "reason": step.reason,
        "cold_ms": step.cold_ms,
        "warm_ms": step.warm_ms,
        "key": step.key,
    }


def _show_warmed(warmed: list[dict[str, Any]]) -> None:
    from neurald.service.console.output import write_table

    columns = ["model", "device", "operations", "cache", "cold ms", "warm ms", "why"]
    rows = []
    for document in warmed:
        for step in document["steps"]:
            times = ["-" if step[name] is None else f"{step[name]:.1f}" for name in ("cold_ms", "warm_ms")]
            rows.append(
                [
                    document["model"],
                    step["device"],
                    str(step["operations"]),
                    step["cache"],
                    *times,
                    step["reason"],
                ]
            )
    write_table(columns, rows, right=["operations", "cold ms", "warm ms"], shorten=["model", "device", "why"])
