"""The startup of a compilation, and where it comes from."""

import pytest
from support.models.small import add_model

import neurald as nd
from neurald.hal.errors import BadData, BadState
from neurald.runtime.plan.startup import STARTUP_VARIABLE, default_startup

pytestmark = pytest.mark.quick


def test_the_default_depends_on_who_chooses_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTUP_VARIABLE)
    assert default_startup(has_explicit_devices=False) is nd.Startup.INSTANT
    assert default_startup(has_explicit_devices=True) is nd.Startup.OPTIMIZED
    model = add_model()
    for devices, expected in ((None, nd.Startup.INSTANT), ([nd.devices()[0]], nd.Startup.OPTIMIZED)):
        compilation = nd.CompilationBuilder(model, devices).finish()
        assert compilation.status.startup is expected
        assert compilation.wait_until_optimized(60)


@pytest.mark.parametrize("startup", nd.Startup)
def test_the_environment_sets_the_default(monkeypatch: pytest.MonkeyPatch, startup: nd.Startup) -> None:
    monkeypatch.setenv(STARTUP_VARIABLE, startup.value)
    assert default_startup(has_explicit_devices=False) is startup
    assert default_startup(has_explicit_devices=True) is startup


def test_other_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = nd.CompilationBuilder(add_model())
    with pytest.raises(BadData, match="the startup"):
        builder.set_startup("soon")  # type: ignore[arg-type]
    monkeypatch.setenv(STARTUP_VARIABLE, "soon")
    with pytest.raises(BadState, match="instant or optimized is expected"):
        builder.finish()
    builder.set_startup(nd.Startup.OPTIMIZED)
    assert builder.finish().status.startup is nd.Startup.OPTIMIZED
    with pytest.raises(BadState, match="finished"):
        builder.set_startup(nd.Startup.INSTANT)
