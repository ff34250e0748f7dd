"""Built-in drivers that record every compilation in a file, which works across processes."""

import os
from pathlib import Path
from typing import Any

from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.device import create as create_plain_cpu
from neurald.hal.device import Device

COMPILATIONS = "NEURALD_TEST_COMPILATIONS"


def _note(_: object = None) -> None:
    with Path(os.environ[COMPILATIONS]).open("a") as file:
        file.write("compiled\n")


def compilations(path: Path) -> int:
    """Returns the number of compilations recorded in a file."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def create_cpu() -> Device:
    """Creates the CPU device."""
    from neurald.drivers.cpu.preparation import Preparation

    def counting(method: Any) -> Any:
        def counted(self: Preparation, *arguments: Any) -> Any:
            _note()
            return method(self, *arguments)

        return counted

    for name in ("prepare", "open"):
        setattr(Preparation, name, counting(getattr(Preparation, name)))
    device = create_plain_cpu()
    assert isinstance(device, CpuDevice)
    return device


def create_opencl() -> Device:
    """Creates the OpenCL device."""
    from neurald.drivers.opencl import device as opencl

    def counting(function: Any) -> Any:
        def counted(*arguments: Any, **options: Any) -> Any:
            _note()
            return function(*arguments, **options)

        return counted

    for name in ("compile_model", "compile_open"):
        setattr(opencl, name, counting(getattr(opencl, name)))
    # Calibration would count as well, and takes seconds.
    setattr(opencl, "calibrated", lambda _: create_plain_cpu().capabilities())  # noqa: B010 - as above
    return opencl.create()
