"""OpenCL devices that are found and chosen, and messages if there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.sweeps import sweep

from neurald.drivers.opencl.platform import loader
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import (
    DEVICE_VARIABLE,
    DeviceContext,
    Discovery,
    Skipped,
    _reason_of_none,
    choose,
    discover,
    flush_every,
)
from neurald.hal.errors import UnavailableDevice
from neurald.hal.records import replace


def facts(name: str, kind: DeviceKind, *, platform_index: int = 0, device_index: int = 0) -> DeviceFacts:
    return DeviceFacts(
        platform_index=platform_index,
        device_index=device_index,
        platform_name=f"Platform {platform_index}",
        platform_version="OpenCL 3.0 one",
        name=name,
        vendor="Somebody",
        driver_version="1.0",
        device_version="OpenCL 3.0",
        c_version="OpenCL C 1.2",
        kind=kind,
        compute_units=1,
        max_work_group_size=256,
        local_memory_bytes=32768,
        max_allocation_bytes=1 << 28,
        global_memory_bytes=1 << 30,
        alignment_bytes=128,
        has_fp64=False,
        has_images=False,
        has_dot_product=False,
        is_nvidia=False,
        compute_capability=None,
        flush_every=0,
        handle=None,
    )


CPU = facts("Fast CPU", DeviceKind.CPU)
ACCELERATOR = facts("Strange Thing", DeviceKind.ACCELERATOR, platform_index=1)
GPU = facts("Big GPU", DeviceKind.GPU, platform_index=1, device_index=1)
SECOND_GPU = facts("Small GPU", DeviceKind.GPU, platform_index=2)
ALL = Discovery(devices=(CPU, ACCELERATOR, GPU, SECOND_GPU), skipped=())


def test_build_options_for_newer_functions() -> None:
    plain = facts("Big GPU", DeviceKind.GPU)
    assert plain.build_options == ()
    newer = replace(plain, has_dot_product=True)
    assert newer.build_options == ("-cl-std=CL3.0",)
    assert replace(newer, device_version="OpenCL 2.1").build_options == ()
    known = replace(plain, is_nvidia=True, compute_capability=(8, 6))
    assert known.build_options == ("-DNEURALD_NVIDIA_CAPABILITY=86",)
    assert replace(known, compute_capability=None).build_options == ()


def in_new_process(code: str, **environment: str) -> str:
    """Returns the output of Python code in a process whose OpenCL loader has not searched for
    platforms yet.
    """
    command = [sys.executable, "-c", code]
    paths = os.pathsep.join(path for path in sys.path if path)
    result = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return result.stdout


def test_the_facts_of_a_device(opencl: DeviceContext) -> None:
    found = opencl.facts
    assert found.name
    assert found.platform_name
    assert found.max_work_group_size > 0
    assert found.compute_units > 0
    assert found.local_memory_bytes > 0
    assert 0 < found.max_allocation_bytes <= found.global_memory_bytes
    assert found.alignment_bytes >= 1
    assert (found.compute_capability is None) or found.is_nvidia
    for part in (found.platform_version, found.driver_version, found.device_version):
        assert part in found.digest
    assert found in discover().devices


def test_the_first_gpu_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)
    assert choose(ALL) == GPU
    assert choose(Discovery(devices=(CPU, ACCELERATOR), skipped=())) == ACCELERATOR
    assert choose(Discovery(devices=(CPU,), skipped=())) == CPU


@sweep("name", ["llvmpipe (LLVM 15.0.6, 256 bits)", "softpipe"])
@sweep("kind", [DeviceKind.CPU, DeviceKind.GPU])
def test_what_draws_with_a_cpu_comes_last(
    name: str, kind: DeviceKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)
    rasterizer = facts(name, kind)
    assert choose(Discovery(devices=(rasterizer, CPU), skipped=())) == CPU
    assert choose(Discovery(devices=(rasterizer,), skipped=())) == rasterizer
    assert choose(Discovery(devices=(CPU, rasterizer), skipped=()), name[:8]) == rasterizer


@sweep(
    ("enabled", "platform", "expected"),
    [
        (
            "",
            "rusticl",
            "has no devices; RUSTICL_ENABLE names Mesa's drivers to use, such as iris or radeonsi",
        ),
        ("llvmpipe", "rusticl", "has no devices"),
        ("", "NVIDIA CUDA", "has no devices"),
    ],
)
def test_why_a_platform_has_no_devices(
    enabled: str, platform: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUSTICL_ENABLE", enabled)
    assert _reason_of_none(platform) == expected


@sweep(
    ("wanted", "chosen"),
    [("0:0", CPU), ("1:0", ACCELERATOR), ("fast cpu", CPU), ("small", SECOND_GPU), ("Platform 1", GPU)],
)
def test_devices_by_name(monkeypatch: pytest.MonkeyPatch, wanted: str, chosen: DeviceFacts) -> None:
    assert choose(ALL, wanted) == chosen
    monkeypatch.setenv(DEVICE_VARIABLE, wanted)
    assert choose(ALL) == chosen


def test_errors_list_the_devices() -> None:
    with pytest.raises(UnavailableDevice, match=r"matches '9:9'.*Fast CPU.*Strange Thing.*Big GPU"):
        choose(ALL, "9:9")
    nothing = Discovery(devices=(), skipped=(Skipped(name="Old One", reason="is OpenCL 1.0"),))
    with pytest.raises(UnavailableDevice, match=r"pocl-opencl-icd.*Old One is not used: is OpenCL 1\.0"):
        choose(nothing, "")


@sweep(
    ("name", "vendor", "expected"),
    [
        ("Mali-G78", "ARM", 24),
        ("Mali-T860", "ARM", 24),
        ("PowerVR Rogue GM9446", "Imagination Technologies", 4),
        ("PowerVR Rogue GE8320", "Imagination Technologies", 4),
        ("PowerVR B-Series BXM-8-256", "Imagination Technologies", 16),
        ("QUALCOMM Adreno(TM) 540", "QUALCOMM", 16),
        ("QUALCOMM Adreno(TM) 630", "QUALCOMM", 16),
        ("QUALCOMM Adreno(TM) 740", "QUALCOMM", 0),
        ("NVIDIA H200", "NVIDIA Corporation", 0),
        ("Intel(R) Arc(TM) A770", "Intel(R) Corporation", 0),
    ],
)
def test_the_flush_rule_of_a_device(name: str, vendor: str, expected: int) -> None:
    assert flush_every(name, vendor) == expected


def test_mesa_needs_no_flushes() -> None:
    assert flush_every("Mali-G52 (Panfrost)", "Arm", "rusticl") == 0


def test_missing_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UnavailableDevice, match=r"install neurald\[opencl\]"):
        discover()


def test_importing_the_driver_does_not_load_pyopencl() -> None:
    code = (
        "import sys, neurald.drivers.opencl.platform.discovery, neurald.drivers.opencl.runtime.program,"
        " neurald.drivers.opencl.runtime.launcher, neurald.drivers.opencl.runtime.staging; print('pyopencl' in sys.modules)"
    )
    assert in_new_process(code).strip() == "False"


def test_missing_platforms(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    code = (
        "from neurald.drivers.opencl.platform.discovery import discover\n"
        "from neurald.hal.errors import UnavailableDevice\n"
        "try: print(discover())\n"
        "except UnavailableDevice as error: print('unavailable:', error)"
    )
    # The user's own choice of libraries is respected, so there are none.
    said = in_new_process(code, OCL_ICD_VENDORS=str(tmp_path))
    assert said.startswith("unavailable: no OpenCL platform is installed")
    assert "pocl-opencl-icd" in said


def test_a_library_without_an_icd_file_is_found(opencl: DeviceContext, tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from neurald.drivers.opencl.platform import loader, discovery\n"
        f"loader._SYSTEM_VENDORS = Path({str(tmp_path)!r})\n"
        "print(len(loader._libraries()), len(discovery.discover().devices), 'OCL_ICD_VENDORS' in os.environ)"
    )
    if not loader._libraries() or any(os.environ.get(one) for one in loader._LOADER_VARIABLES):
        pytest.skip("the library of this machine's OpenCL is of no known name, or the user names it")
    libraries, devices, is_set = in_new_process(code).split()
    assert int(libraries) > 0
    assert int(devices) > 0
    assert is_set == "False"
