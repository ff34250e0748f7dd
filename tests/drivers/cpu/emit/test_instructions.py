from neurald.drivers.cpu.emit.instructions import Instructions


def test_loop_invariant_instructions_are_hoisted() -> None:
    code = Instructions(("%a",))
    with code.loop("0", "10") as loop:
        inside = code.value(f"add i64 {loop.index}, 1")
        outside = code.value("add i64 %a, 1")
        code.effect(f"store i64 {inside}, ptr %a")
    text = "\n".join(code.lines)
    assert text.index(f"{outside} = ") < text.index("phi i64") < text.index(f"{inside} = ")


def test_an_instruction_is_written_once_while_its_name_is_visible() -> None:
    code = Instructions(("%a",))
    assert code.value("add i64 %a, 1") == code.value("add i64 %a, 1")
    with code.loop("0", "10") as loop:
        first = code.value(f"add i64 {loop.index}, 1")
        assert code.value(f"add i64 {loop.index}, 1") == first
        assert code.is_known(first)
    assert not code.is_known(first)


def test_a_load_stays_inside_its_condition() -> None:
    code = Instructions(("%a", "%c"))
    with code.when("%c"):
        loaded = code.load("load i64, ptr %a")
        added = code.value("add i64 1, 2")
    text = "\n".join(code.lines)
    assert text.index(f"{added} = ") < text.index("br i1 %c") < text.index(f"{loaded} = ")


def test_what_replaces_a_value_is_computed_under_its_condition() -> None:
    code = Instructions(("%a", "%c"))
    usual = code.value("add i64 %a, 1")
    found = code.replaced("%c", "i64", usual, lambda: code.fresh("sdiv i64 %a, 3"))
    after = code.value(f"add i64 {found}, 7")
    lines = [each.strip() for each in code.lines]
    (divided,) = [n for n, each in enumerate(lines) if "sdiv" in each]
    branch = next(n for n, each in enumerate(lines) if each.startswith("br i1 %c"))
    choice = next(n for n, each in enumerate(lines) if each.startswith(f"{found} = phi i64"))
    assert branch < divided < choice < lines.index(f"{after} = add i64 {found}, 7")
    # Nothing precedes the choice in its block.
    assert lines[choice - 1].endswith(":")
    assert usual in lines[choice]


def test_unknown_names_prevent_hoisting() -> None:
    code = Instructions(("%a",))
    with code.loop("0", "10"):
        code.effect("%mine = add i64 %a, 7")
        used = code.value("add i64 %mine, 1")
    text = "\n".join(code.lines)
    assert text.index("%mine = ") < text.index(f"{used} = ")


def test_loop_carried_values_are_visible_after_the_loop() -> None:
    code = Instructions(("%n",))
    with code.loop("0", "%n", [("i64", "5")], may_be_empty=True) as loop:
        loop.results.append(code.value(f"add i64 {loop.carried[0]}, {loop.index}"))
    assert loop.results == loop.carried
    assert code.is_known(loop.results[0])
    with code.loop("0", "4", [("i64", "5")], step=2) as other:
        other.results.append(code.value(f"add i64 {other.carried[0]}, {other.index}"))
    assert code.is_known(other.results[0])
    assert "add i64 %v" in "\n".join(code.lines)


def test_values_of_a_loop_are_not_visible_outside_it() -> None:
    """They are invisible before the loop while it is written, but visible in it afterwards."""
    code = Instructions(("%a",))
    with code.loop("0", "10", may_be_empty=True):
        loaded = code.load("load i64, ptr %a")
        with code.outside(0):
            assert not code.is_known(loaded)
            assert code.is_known("%a")
        assert code.is_known(loaded)


def test_instructions_can_be_written_outside_open_loops() -> None:
    code = Instructions(("%a",))
    with code.loop("0", "10") as loop:
        with code.outside(0), code.loop("0", "3") as other:
            code.effect(f"store i64 {other.index}, ptr %a")
        code.effect(f"store i64 {loop.index}, ptr %a")
    text = "\n".join(code.lines)
    assert text.index(f"store i64 {other.index}") < text.index(f"store i64 {loop.index}")


def test_parts_are_interleaved_as_their_operands_allow() -> None:
    code = Instructions(("%a", "%b"))

    def part(name: str) -> None:
        shared = code.value("mul i64 %a, 7")
        first = code.value(f"add i64 {shared}, {name}")
        code.effect(f"store i64 {first}, ptr {name}")

    with code.loop("0", "3") as loop:
        code.effect(f"store i64 {loop.index}, ptr %a")
        inner = code.value(f"add i64 {loop.index}, 5")
        code.interleaved([lambda: part(inner), lambda: part("%b"), lambda: part(loop.index)])
    lines = [line.strip() for line in code.lines]
    stores = [n for n, line in enumerate(lines) if line.startswith("store")]
    # The sum of the second part is hoisted, so only its store is left in the loop.
    assert [lines[n].split()[-1] for n in stores] == ["%a", "%b", inner, loop.index]
    assert all("= add i64" in lines[n] for n in (stores[1] - 1, stores[1] + 1))
    assert sum("mul i64" in line for line in lines) == 1


def test_parts_wait_for_shared_values() -> None:
    code = Instructions(("%a",))

    def first() -> None:
        name = code.fresh("add i64 %a, 1")
        code.effect(f"store i64 {name}, ptr %a")
        code.value(f"mul i64 {name}, 3")

    def second() -> None:
        code.effect(f"store i64 {code.value('mul i64 %v1, 3')}, ptr %a")

    code.interleaved([first, second])
    assert [line.split()[0] for line in code.lines] == ["%v1", "store", "%v2", "store"]


def test_parts_with_blocks_are_not_interleaved() -> None:
    code = Instructions(("%a", "%c"))

    def part() -> None:
        code.effect("store i64 1, ptr %a")
        with code.when("%c"):
            code.effect("store i64 2, ptr %a")

    code.interleaved([part, part])
    assert [line.split()[2] for line in code.lines if "store" in line] == ["1,", "2,", "1,", "2,"]
