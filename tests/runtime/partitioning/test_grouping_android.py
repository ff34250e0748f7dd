"""Grouping by Android's queues: which operations run together, and in which order."""

import itertools
import random

from support.models.graphs import candidate, chain, graph, model, only, random_graph
from support.sweeps import sweep

from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType, Preference
from neurald.runtime.model.boundary import boundaries
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.group_order import check_groups
from neurald.runtime.partitioning.grouping_android import group_into_steps
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup, WhileGroup
from neurald.runtime.partitioning.placement import INTERPRETER, Placement, find_best_device_for_each_operation

ADD, MUL, SUB, IF, WHILE = (
    OperationType.ADD,
    OperationType.MUL,
    OperationType.SUB,
    OperationType.IF,
    OperationType.WHILE,
)
BOOL = OperandType.TENSOR_BOOL8


def placed(*devices: int) -> tuple[Placement, ...]:
    return tuple(Placement(device=device, reason="") for device in devices)


def grouped(subject: Model, *devices: int) -> list[tuple[int, tuple[int, ...]]]:
    groups = group_into_steps(subject, {MAIN: placed(*devices)})
    check_groups(subject, groups)
    steps = []
    for group in groups:
        assert isinstance(group, StepGroup)
        assert group.graph == MAIN
        steps.append((group.device, group.operations))
    return steps


def test_one_device_for_all_is_one_step_in_the_models_own_order() -> None:
    # Sorted by readiness, operation 2 would come before operation 1.
    subject = model("a b", [(ADD, "a b", "c"), (ADD, "c c", "d"), (ADD, "a b", "e")], "d e")
    assert grouped(subject, 1, 1, 1) == [(1, (0, 1, 2))]


def test_two_devices_that_can_do_one_operation_each() -> None:
    subject = chain(ADD, MUL)
    assert grouped(subject, 0, 1) == [(0, (0,)), (1, (1,))]


def test_device_cpu_device() -> None:
    subject = chain(ADD, ADD, MUL, ADD, ADD)
    assert grouped(subject, 1, 1, 0, 1, 1) == [(1, (0, 1)), (0, (2,)), (1, (3, 4))]


def test_the_last_device_that_has_work_comes_first() -> None:
    subject = model("a", [(ADD, "a", "b"), (ADD, "a", "c"), (ADD, "a", "d")], "b c d")
    assert grouped(subject, 0, 1, 2) == [(2, (2,)), (1, (1,)), (0, (0,))]
    assert grouped(subject, 2, 0, 1) == [(2, (0,)), (1, (2,)), (0, (1,))]


def test_operations_that_become_ready_join_the_step_of_their_device() -> None:
    # 0 -> 1 -> 3 on device 1; 2 on device 0 also needs 0.
    lines = [(ADD, "a", "b"), (ADD, "b", "c"), (MUL, "b", "d"), (ADD, "c", "e"), (ADD, "e d", "f")]
    subject = model("a", lines, "f")
    assert grouped(subject, 1, 1, 0, 1, 1) == [(1, (0, 1, 3)), (0, (2,)), (1, (4,))]


def test_a_step_may_take_operations_that_are_no_neighbours() -> None:
    lines = [(ADD, "a", "b"), (MUL, "a", "c"), (ADD, "a", "d"), (MUL, "d", "e")]
    subject = model("a", lines, "b c e")
    assert grouped(subject, 1, 0, 1, 0) == [(1, (0, 2)), (0, (1, 3))]


def test_operations_of_a_step_come_in_the_order_in_which_they_became_ready() -> None:
    lines = [(ADD, "a", "b"), (ADD, "b", "c"), (ADD, "a", "d"), (MUL, "c d", "e")]
    subject = model("a", lines, "e")
    assert grouped(subject, 1, 1, 1, 0) == [(1, (0, 2, 1)), (0, (3,))]


def test_an_operand_that_is_read_twice_is_waited_for_once() -> None:
    subject = model("a", [(ADD, "a", "b"), (MUL, "b b", "c")], "c")
    assert grouped(subject, 0, 1) == [(0, (0,)), (1, (1,))]


def test_order_of_a_steps_operands() -> None:
    lines = [
        (ADD, "x", "late"),  # an output of the model that a later step reads
        (ADD, "y", "middle"),
        (MUL, "late middle x y", "out inner"),
        (ADD, "inner", "last"),
    ]
    subject = model("y x", lines, "out late last")
    edges = boundaries(subject.main, [operations for _, operations in grouped(subject, 0, 0, 1, 0)])
    names = [
        (
            [subject.main.operands[i].name for i in e.inputs],
            [subject.main.operands[i].name for i in e.outputs],
        )
        for e in edges
    ]
    assert names == [
        (["y", "x"], ["late", "middle"]),
        (["y", "x", "middle", "late"], ["out", "inner"]),
        (["inner"], ["last"]),
    ]


def test_an_output_that_a_later_step_reads_is_given_back_and_fed_forward() -> None:
    subject = model("a", [(ADD, "a", "b"), (MUL, "b", "c")], "b c")
    first, second = boundaries(subject.main, [(0,), (1,)])
    assert first.outputs == second.inputs == (1,)


def test_an_operation_whose_result_nobody_reads_makes_a_step() -> None:
    subject = model("a", [(ADD, "a", "b"), (MUL, "a", "c")], "c")
    assert grouped(subject, 0, 1) == [(1, (1,)), (0, (0,))]
    (edge,) = boundaries(subject.main, [(0,)])
    assert edge.outputs == (1,)


def test_what_only_operations_read_that_no_step_runs_is_no_output() -> None:
    subject = model("a", [(ADD, "a", "b"), (MUL, "b", "c"), (ADD, "b", "d"), (ADD, "c", "e")], "c")
    (edge, _) = boundaries(subject.main, [(0, 1), (3,)], dead=(2,))
    assert [subject.main.operands[index].name for index in edge.outputs] == ["c"]


def test_an_operation_without_inputs_makes_a_step_without_inputs() -> None:
    subject = model("a", [(ADD, "", "b"), (MUL, "a b", "c")], "c")
    assert grouped(subject, 0, 1) == [(0, (0,)), (1, (1,))]
    (edge, _) = boundaries(subject.main, [(0,), (1,)])
    assert edge.inputs == ()


def test_an_empty_graph_has_no_steps() -> None:
    assert group_into_steps(Model(main=graph("a", [], "")), {MAIN: ()}) == ()


def branch(*types: OperationType) -> Subgraph:
    return chain(*types).main


def flow_model() -> Model:
    lines = [
        (ADD, "x", "y"),
        (IF, "c @1 @2 y", "z"),
        (ADD, "x", "w"),
        (WHILE, "@3 @1 z", "v"),
        (ADD, "v w", "u"),
    ]
    condition = graph("x", [(OperationType.LESS, "x x", "d")], "d", types={"d": BOOL}, dimensions={"d": (1,)})
    referenced = [branch(ADD, MUL), branch(MUL), condition]
    return model("c x", lines, "u", referenced=referenced, types={"c": BOOL}, dimensions={"c": (1,)})


def test_interpreted_control_flow() -> None:
    subject = flow_model()
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", only(MUL), model=subject, time=0.5)
    placements = find_best_device_for_each_operation(subject, [cpu, device], Preference.FAST_SINGLE_ANSWER)
    groups = group_into_steps(subject, placements)
    check_groups(subject, groups)

    def step(number: int, on: int, *operations: int) -> StepGroup:
        return StepGroup(graph=number, device=on, operations=operations)

    body = (step(1, 0, 0), step(1, 1, 1))
    assert groups == (
        step(MAIN, 0, 0, 2),
        IfGroup(graph=MAIN, operation=1, then_groups=body, else_groups=(step(2, 1, 0),)),
        WhileGroup(graph=MAIN, operation=3, condition_groups=(step(3, 0, 0),), body_groups=body),
        step(MAIN, 0, 4),
    )


def test_a_capable_device_runs_control_flow_as_one_step() -> None:
    subject = flow_model()
    cpu = candidate("cpu", model=subject, is_cpu=True)
    device = candidate("device", model=subject, time=0.5, control_flow=0.5)
    placements = find_best_device_for_each_operation(subject, [cpu, device], Preference.FAST_SINGLE_ANSWER)
    assert group_into_steps(subject, placements) == (
        StepGroup(graph=MAIN, device=1, operations=(0, 1, 2, 3, 4)),
    )


def test_control_flow_that_is_ready_comes_before_all_devices() -> None:
    lines = [(ADD, "x", "y"), (IF, "c @1 @1 x", "z")]
    subject = model("c x", lines, "y z", referenced=[branch(ADD)], types={"c": BOOL})
    groups = group_into_steps(subject, {MAIN: placed(5, INTERPRETER), 1: placed(0)})
    assert [type(group) for group in groups] == [IfGroup, StepGroup]


def test_a_main_graph_of_nothing_but_interpreted_control_flow() -> None:
    subject = model("c x", [(IF, "c @1 @1 x", "z")], "z", referenced=[branch(ADD)], types={"c": BOOL})
    (group,) = group_into_steps(subject, {MAIN: placed(INTERPRETER), 1: placed(0)})
    assert isinstance(group, IfGroup)


def test_an_empty_branch_has_no_groups() -> None:
    subject = model("c x", [(IF, "c @1 @2 x", "z")], "z", referenced=[graph("x", [], ""), branch(ADD)])
    (group,) = group_into_steps(subject, {MAIN: placed(INTERPRETER), 1: (), 2: placed(0)})
    check_groups(subject, (group,))
    assert isinstance(group, IfGroup)
    assert group.then_groups == ()


def test_a_whole_branch_is_one_step_in_its_own_order() -> None:
    lines = [(ADD, "a", "b"), (ADD, "b", "c"), (ADD, "a", "d"), (ADD, "c d", "e")]
    inner = graph("a", lines, "e")
    subject = model("c x", [(IF, "c @1 @1 x", "z")], "z", referenced=[inner], types={"c": BOOL})
    groups: tuple[Group, ...] = group_into_steps(subject, {MAIN: placed(INTERPRETER), 1: placed(3, 3, 3, 3)})
    (group,) = groups
    assert isinstance(group, IfGroup)
    assert group.then_groups == (StepGroup(graph=1, device=3, operations=(0, 1, 2, 3)),)


@sweep("seed", range(60))
def test_random_graphs_give_steps_in_a_right_order(seed: int) -> None:
    generator = random.Random(seed)
    main = random_graph(generator, generator.randint(1, 60), (ADD, MUL, SUB))
    subject = Model(main=main)
    devices = [generator.randrange(3) for _ in main.operations]
    groups = group_into_steps(subject, {MAIN: placed(*devices)})
    check_groups(subject, groups)
    for group in groups:
        assert isinstance(group, StepGroup)
        assert {devices[n] for n in group.operations} == {group.device}
    # Two consecutive steps on one device would have been one step.
    pairs = itertools.pairwise(groups)
    assert all(
        a.device != b.device for a, b in pairs if isinstance(a, StepGroup) and isinstance(b, StepGroup)
    )
