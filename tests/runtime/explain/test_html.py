"""An explanation's page in a browser: drawing, folding, search, keys, sizes, hostile text."""

import math
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.models.graphs import all_but, candidate, chain, model, only, random_graph
from support.models.small import pooling
from support.pages.browser import BrowserPage, address_of, open_browser

from neurald.hal.device import KernelTime
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.hal.records import replace
from neurald.runtime.execution.profile import StepProfile
from neurald.runtime.explain.explanation import Explanation, explain
from neurald.runtime.explain.html import embedded_json, page_document
from neurald.runtime.partitioning.options import Partitioning
from neurald.runtime.partitioning.partitioner import partition
from neurald.runtime.partitioning.placement import Candidate

ADD, MUL, SUB, IF = OperationType.ADD, OperationType.MUL, OperationType.SUB, OperationType.IF
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x00\x1b[2J\ud800\u202e\u2028<!--"
READY = "document.documentElement?.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserPage]:
    with open_browser() as page:
        yield page


def explained(subject: Model, candidates: list[Candidate], *notes: str) -> Explanation:
    return explain(
        subject,
        candidates,
        partition(subject, candidates, Preference.FAST_SINGLE_ANSWER, Partitioning()),
        notes,
    )


def pair(subject: Model) -> list[Candidate]:
    return [
        candidate("cpu", model=subject, is_cpu=True),
        candidate("gpu:0", all_but(MUL), model=subject, time=0.5, control_flow=0.5),
    ]


def show(
    browser: BrowserPage,
    found: Explanation,
    folder: Path,
    width: int = 1400,
    height: int = 900,
    *,
    title: str = "Placement",
    what_ifs: tuple[Explanation, ...] = (),
) -> None:
    path = folder / "page.html"
    path.write_text(found.to_html(title=title, what_ifs=what_ifs), encoding="utf-8")
    browser.shape(width, height)
    browser.open(address_of(path), ready=READY)


def blocks(count: int) -> Model:
    """A chain of blocks with a residual connection around two operations each."""
    lines = []
    for number in range(count):
        lines += [
            (ADD, f"v{number}", f"a{number}"),
            (MUL, f"a{number}", f"b{number}"),
            (SUB, f"b{number} v{number}", f"v{number + 1}"),
        ]
    return model("v0", lines, f"v{count}")


def count(browser: BrowserPage, selector: str) -> int:
    return int(browser.evaluate(f"document.querySelectorAll({selector!r}).length"))


class _Page(HTMLParser):
    """Collects the tags of a page, the attributes, and what is left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += (name for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile() -> Explanation:
    operands = tuple(
        replace(operand, name=HOSTILE * (1 + 20_000 * (n == 0)))
        for n, operand in enumerate(chain(ADD, MUL, ADD).main.operands)
    )
    subject = Model(main=replace(chain(ADD, MUL, ADD).main, operands=operands))
    candidates = pair(subject)
    candidates[1] = candidate(HOSTILE, all_but(MUL), model=subject, time=0.5)
    return explained(subject, candidates, HOSTILE)


def test_the_page_escapes_and_loads_nothing() -> None:
    page = hostile().to_html(title=HOSTILE)
    parsed = _Page(page)
    assert parsed.open == []
    assert parsed.tags.count("script") == 3
    assert set(parsed.tags) == {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "noscript",
        "p",
        "code",
        "script",
    }
    assert not [name for name in parsed.attributes if name.startswith(("on", "src", "href", "style"))]
    assert not set("\x00\x1b\u202e\u2028\ud800") & set(page)
    page.encode()
    data = page[page.index('id="data">') + 10 :].split("</script>", 1)[0]
    assert not set("<>&") & set(data)
    assert data.isascii()
    assert len(page) < 250_000  # the long name is shortened
    assert "unsafe" not in re.search('http-equiv="Content-Security-Policy" content="(.*?)"', page)[1]  # type: ignore[index]


def test_infinite_times_are_shown_as_unknown() -> None:
    subject = chain(ADD, MUL)
    found = replace(
        explained(subject, pair(subject)), predicted_s={"the plan": math.inf}, predicted_before_s=math.inf
    )
    document = page_document(found, "title")
    assert (document["plans"][0]["predicted"], document["plans"][0]["before"]) == ([], None)
    assert "Infinity" not in embedded_json(document)


def test_embedded_json_has_no_markup() -> None:
    assert embedded_json({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'


def test_hostile_text_is_text(browser: BrowserPage, tmp_path: Path) -> None:
    show(browser, hostile(), tmp_path, title=HOSTILE)
    browser.evaluate(
        "[...document.querySelectorAll('.node')][1].dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert count(browser, "img") == 0
    assert browser.problems == []
    assert len(browser.requested) == 1
    assert browser.evaluate("document.querySelector('h1').textContent").startswith("</script><img src=x")
    text = browser.evaluate("document.body.innerText")
    assert "\u202e" not in text
    assert "\\u202e" in text


def test_every_operation_and_skip_connection(browser: BrowserPage, tmp_path: Path) -> None:
    found = explained(blocks(1), pair(blocks(1)))
    show(browser, found, tmp_path)
    assert count(browser, ".node.operation") == 3
    assert count(browser, ".edge[data-edge]") == 5  # with those of the input and the output
    assert count(browser, ".edge.crossing[data-edge]") == 2
    # The residual connection passes beside the nodes that it skips.
    clear = browser.evaluate(
        "(() => { const boxes = [...document.querySelectorAll('.node.operation rect.box')].map(b => b.getBBox());"
        "return [...document.querySelectorAll('.edge[data-edge]')].every(path => {"
        "  const length = path.getTotalLength();"
        "  for (let at = 2; at < length - 2; at += 2) { const p = path.getPointAtLength(at);"
        "    if (boxes.some(b => p.x > b.x + 1 && p.x < b.x + b.width - 1 && p.y > b.y + 1 && p.y < b.y + b.height - 1)) return false; }"
        "  return true; }); })()"
    )
    assert clear is True
    assert browser.problems == []


def test_identical_blocks_fold_and_unfold(browser: BrowserPage, tmp_path: Path) -> None:
    subject = blocks(12)
    show(browser, explained(subject, [candidate("cpu", model=subject, is_cpu=True)]), tmp_path)
    assert count(browser, ".node.more") == 1
    assert "11 more" in browser.evaluate("document.querySelector('.node.more').textContent")
    assert count(browser, ".node.operation") == 3
    browser.evaluate(
        "document.querySelector('.node.more').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert count(browser, ".node.operation") == 36
    assert count(browser, ".frames rect") == 12
    browser.evaluate("document.getElementById('stage').focus()")
    browser.press("Space")
    assert count(browser, ".node.operation") == 3


def test_blocks_on_different_devices_do_not_fold(browser: BrowserPage, tmp_path: Path) -> None:
    lines = [(ADD if n % 2 else MUL, f"v{n}", f"v{n + 1}") for n in range(8)]
    lines[4] = (SUB, "v4", "v5")
    subject = model("v0", lines, "v8")
    show(browser, explained(subject, pair(subject)), tmp_path)
    assert count(browser, ".node.more") == 0


def test_kernels_group_the_operations_that_they_fuse(browser: BrowserPage, tmp_path: Path) -> None:
    subject = blocks(1)
    kernels = (
        KernelTime(name="k0", duration_ns=5_000, operations=(0, 1), label="tile 8"),
        KernelTime(name="k1", duration_ns=20_000, operations=(2,)),
    )
    profile = StepProfile(step=0, device="cpu", graph=0, operations=(0, 1, 2), kernels=kernels)
    cpu = [candidate("cpu", model=subject, is_cpu=True)]
    found = explained(subject, cpu).with_kernels([profile])
    assert [each.operations for each in found.kernels] == [(0, 1), (2,)]
    show(browser, found, tmp_path)
    assert count(browser, ".node.kernel") == 1
    text = browser.evaluate("document.querySelector('.node.kernel').textContent")
    assert "#0 ADD" in text
    assert "#1 MUL" in text
    assert "5.0 µs" in text
    assert "20.0 µs" in browser.evaluate("document.querySelector('.node.operation').textContent")
    browser.evaluate("[...document.querySelectorAll('.check input')][0].click()")
    assert count(browser, ".node.operation") == 3


def kernel(name: str, *operations: int) -> KernelTime:
    return KernelTime(name=name, duration_ns=1_000, operations=operations)


def test_kernels_do_not_group_operations_of_other_steps(browser: BrowserPage, tmp_path: Path) -> None:
    """An operation without a kernel may be a view of the kernel before it on the same device."""
    subject = chain(ADD, MUL, ADD)
    profiles = [
        StepProfile(step=0, device="cpu", graph=0, operations=(0,), kernels=(kernel("k0", 0),)),
        StepProfile(step=2, device="cpu", graph=0, operations=(2,), kernels=(kernel("k1", 2),)),
    ]
    candidates = [
        candidate("cpu", all_but(MUL), model=subject, is_cpu=True),
        candidate("gpu:0", only(MUL), model=subject),
    ]
    show(browser, explained(subject, candidates).with_kernels(profiles), tmp_path)
    assert count(browser, ".node.operation") == 3
    assert count(browser, ".node.d1") == 1


def test_a_kernel_of_operations_around_others_does_not_undo_their_groups(
    browser: BrowserPage, tmp_path: Path
) -> None:
    """A kernel may write its part of a concatenation before the kernels that write the others."""
    subject = model(
        "x",
        [(ADD, "x", "a"), (MUL, "a", "b"), (SUB, "b", "c"), (ADD, "a c", "d"), (MUL, "d", "y")],
        "y",
    )
    kernels = (kernel("k0", 0, 3), kernel("k1", 1, 2), kernel("k2", 4))
    profile = StepProfile(step=0, device="cpu", graph=0, operations=tuple(range(5)), kernels=kernels)
    cpu = [candidate("cpu", model=subject, is_cpu=True)]
    show(browser, explained(subject, cpu).with_kernels([profile]), tmp_path)
    assert count(browser, ".node.kernel") == 1
    labels = browser.evaluate(
        "[...document.querySelectorAll('.node.operation, .node.kernel')].map(e => e.getAttribute('aria-label'))"
    )
    assert sorted(labels) == [
        "kernel of 2 operations: 1 MUL, 2 SUB, on cpu, 1.0 µs",
        "operation 0 ADD, on cpu, 1.0 µs",
        "operation 3 ADD, on cpu",
        "operation 4 MUL, on cpu, 1.0 µs",
    ]


def test_types_and_attributes_are_drawn(browser: BrowserPage, tmp_path: Path) -> None:
    subject = pooling(stride=2)
    show(browser, explained(subject, [candidate("cpu", model=subject, is_cpu=True)]), tmp_path)
    text = browser.evaluate("document.querySelector('.node.operation').textContent")
    assert "RELU" in text
    assert "padding SAME · stride 2×2 · filter 1×1" in text
    labels = browser.evaluate("[...document.querySelectorAll('.labels text')].map(e => e.textContent)")
    assert labels == ["1×2×2×1 int8", "1×1×1×1 int8"]
    click = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    browser.evaluate(f"document.querySelector('.node.operation').{click}")
    assert re.search(
        r"padding_scheme\s+SAME\s+stride_width\s+2\s",
        browser.evaluate("document.querySelector('dl').innerText"),
    )


def test_values_that_leave_beside_each_other_do_not_hide_their_texts(
    browser: BrowserPage, tmp_path: Path
) -> None:
    subject = model("x", [(ADD, "x", "a b"), (MUL, "a", "c"), (SUB, "b", "d")], "c d", dimensions={"b": (7,)})
    show(browser, explained(subject, [candidate("cpu", model=subject, is_cpu=True)]), tmp_path)
    labels = browser.evaluate("[...document.querySelectorAll('.labels text')].map(e => e.textContent)")
    assert sorted(labels) == ["2 values", "2×3 float32", "2×3 float32", "2×3 float32"]


def test_devices_keep_their_patterns_beside_the_table(browser: BrowserPage, tmp_path: Path) -> None:
    subject = chain(ADD, MUL)
    show(browser, explained(subject, pair(subject)), tmp_path)
    browser.evaluate("document.querySelector('.views button:last-child').click()")
    # What is in an element that is not displayed paints nothing.
    assert browser.evaluate(
        "(() => { let e = document.getElementById('pattern1').parentElement.parentElement;"
        " while (e && getComputedStyle(e).display !== 'none') e = e.parentElement; return e === null; })()"
    )


def test_names_of_kernels_are_whole(browser: BrowserPage, tmp_path: Path) -> None:
    subject = blocks(3)
    kernels = (
        KernelTime(name="k0", duration_ns=5_000, operations=(0, 1, 2, 3, 4, 5, 6, 7)),
        KernelTime(name="k1", duration_ns=4_000, operations=(8,)),
    )
    profile = StepProfile(step=0, device="cpu", graph=0, operations=tuple(range(9)), kernels=kernels)
    cpu = [candidate("cpu", model=subject, is_cpu=True)]
    show(browser, explained(subject, cpu).with_kernels([profile]), tmp_path)
    if not count(browser, "table[aria-label='Slowest kernels']"):
        browser.evaluate("[...document.querySelectorAll('button')].find(e => e.innerText === 'Plan').click()")
    text = browser.evaluate("document.querySelector('.panel').innerText")
    assert "#0, #1, #2, … ADD + MUL + SUB + 5" in text
    assert "#8 SUB" in text


def test_search_and_keys(browser: BrowserPage, tmp_path: Path) -> None:
    subject = blocks(2)
    show(browser, explained(subject, pair(subject)), tmp_path)
    browser.evaluate("document.getElementById('stage').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    chosen = "document.querySelector('[aria-selected=true]').getAttribute('aria-label')"
    assert browser.evaluate(chosen) == "operation 0 ADD, on gpu:0"
    assert browser.evaluate(
        "document.getElementById(document.getElementById('stage').getAttribute('aria-activedescendant')) !== null"
    )
    browser.press("/")
    browser.evaluate(
        "(() => { const s = document.activeElement; s.value = 'mul'; s.dispatchEvent(new Event('input')); })()"
    )
    assert count(browser, "#found [data-place]") == 2
    browser.press("ArrowDown")
    browser.press("Enter")
    assert browser.evaluate("document.querySelector('#panel h2').textContent") == "MUL"
    assert "the only device that can run it" in browser.evaluate("document.getElementById('panel').innerText")
    assert "no rule for MUL" in browser.evaluate("document.getElementById('panel').innerText")


def test_graphs_of_control_flow(browser: BrowserPage, tmp_path: Path) -> None:
    inner = [chain(ADD, MUL).main, chain(SUB).main]
    types = {"c": OperandType.TENSOR_BOOL8}
    subject = model(
        "c x", [(IF, "c @1 @2 x", "y")], "y", referenced=inner, types=types, dimensions={"c": (1,)}
    )
    show(browser, explained(subject, [candidate("cpu", model=subject, is_cpu=True)]), tmp_path)
    graphs = "[...document.querySelectorAll('.controls select')].at(-1)"
    assert browser.evaluate(f"{graphs}.options.length") == 3
    browser.evaluate(
        f"(() => {{ const s = {graphs}; s.value = '1'; s.dispatchEvent(new Event('change')); }})()"
    )
    assert count(browser, ".node.operation") == 2
    assert browser.problems == []


def test_a_what_if_beside_the_plan(browser: BrowserPage, tmp_path: Path) -> None:
    subject = chain(ADD, MUL, ADD)
    found = explained(subject, pair(subject))
    other = explained(
        subject, pair(subject)[:1], "what if pin operations 0-2 to cpu: 2 operations would move"
    )
    show(browser, found, tmp_path, what_ifs=(other,))
    assert count(browser, ".node.d1") == 2
    browser.evaluate(
        "(() => { const s = document.querySelector('.controls select'); s.value = '1'; s.dispatchEvent(new Event('change')); })()"
    )
    assert count(browser, ".node.d1") == 0


@pytest.mark.parametrize("size", [(380, 760), (1400, 900)], ids=str)
@pytest.mark.sampled(2)
def test_700_operations_at_every_size(browser: BrowserPage, tmp_path: Path, size: tuple[int, int]) -> None:
    width, height = size
    subject = Model(main=random_graph(random.Random(2), 700, (ADD, MUL, SUB)))
    candidates = [*pair(subject), candidate("third", only(SUB), model=subject, time=0.2)]
    show(browser, explained(subject, candidates), tmp_path, width, height)
    assert count(browser, ".node.operation") + count(browser, ".node.more") > 500
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # Text is readable at first.
    assert browser.evaluate("document.querySelector('text.head').getBoundingClientRect().height") >= 8
    assert browser.evaluate("Number(document.documentElement.dataset.layoutMs)") < 30_000
    assert browser.problems == []
    assert browser.unnamed() == []
    browser.evaluate("document.querySelector('.views button:last-child').click()")
    assert browser.unnamed() == []
    assert count(browser, ".list tbody tr") == 700
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
