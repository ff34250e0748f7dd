"""Tests of sources in `drivers/sample/` without a test file of their own; see `mirror.py`."""

from collections.abc import Mapping

COVERED_BY: Mapping[str, str] = {
    "drivers/sample/buffer.py": "tests/drivers/sample/test_device.py",
    "drivers/sample/config.py": "tests/runtime/devices/test_extensions.py",
    "drivers/sample/extension.py": "tests/runtime/devices/test_extensions.py",
    "drivers/sample/prepared_model.py": "tests/drivers/sample/test_device.py",
}
