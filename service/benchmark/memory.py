"""Reports how much memory this process holds."""

from pathlib import Path

_STATUS = Path("/proc/self/status")


def memory_use() -> dict[str, int | None]:
    """Returns the resident memory of this process, now and at most, in bytes; None if unknown."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        lines = []
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return {"resident_bytes": _bytes(fields.get("VmRSS")), "peak_bytes": _bytes(fields.get("VmHWM"))}


def _bytes(field: list[str] | None) -> int | None:
    return int(field[0]) * 1024 if field and field[0].isdigit() else None
