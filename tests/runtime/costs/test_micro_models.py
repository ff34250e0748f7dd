"""The models that a calibration runs."""

from neurald.hal.validation.model_rules import validate_model
from neurald.runtime.costs.micro_models import chained_models, micro_models, moving_models
from neurald.runtime.costs.work import kind_of, work_of


def test_all_are_valid_and_of_one_kind_and_work() -> None:
    kinds = set()
    for operation, operand, builders in micro_models():
        sizes = []
        for build in builders:
            graph = build().model.main
            validate_model(build().model)
            assert {each.type for each in graph.operations} == {operation}
            assert graph.operands[graph.inputs[0]].type is operand
            (work,) = {work_of(graph, each) for each in graph.operations}
            (kind,) = {kind_of(graph, each) for each in graph.operations}
            kinds.add(kind)
            sizes.append(work)
        assert sizes == sorted(sizes)
        assert sizes[-1] > 30 * sizes[0]
    assert len(kinds) == 22


def test_models_that_move_data() -> None:
    seen = set()
    for build in moving_models():
        micro = build(1 << 14)
        validate_model(micro.model)
        (operation,) = micro.model.main.operations
        kind = micro.model.main.operands[operation.inputs[0]].type
        seen.add((operation.type, kind))
        assert micro.input_bytes == micro.output_bytes == kind.dtype.itemsize << 14
        assert build(1).input_bytes == kind.dtype.itemsize
    assert len(seen) == 12


def test_chains_have_one_element_and_several_operations() -> None:
    kinds = set()
    for build in chained_models(4):
        micro = build()
        validate_model(micro.model)
        graph = micro.model.main
        kinds.add((graph.operations[0].type, graph.operands[graph.inputs[0]].type))
        assert [each.type for each in graph.operations] == [graph.operations[0].type] * 4
        assert micro.input_bytes == micro.output_bytes <= 4
    assert len(kinds) == 10
