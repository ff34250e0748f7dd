"""The names of sources are derived from their texts."""

from support.opencl.kernels import GRAPHS, kernels

from neurald.drivers.opencl.codegen.kernel_source import NAME, Source
from neurald.drivers.opencl.codegen.render import render
from neurald.hal.records import replace


def of(name: str) -> Source:
    return render(kernels(GRAPHS[name]())[0])


def test_names_are_identifiers_derived_from_the_text() -> None:
    names = {of(name).name for name in GRAPHS}
    assert len(names) == len(GRAPHS)
    assert all(name.isidentifier() for name in names)
    assert of("softmax").name == of("softmax").name
    assert replace(of("softmax"), label="another", operations=(3,)).name == of("softmax").name


def test_the_text_has_a_placeholder_for_the_name() -> None:
    for name in GRAPHS:
        source = of(name)
        assert f"static void {NAME}(" in source.text
        assert source.groups > 0
        assert source.local_size > 0
