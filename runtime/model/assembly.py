"""Parts of a model that its builder joins: pools of constants, and graphs of other models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.graph import Location, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.records import replace


def pooled_constants(
    arrays: Mapping[int, np.ndarray[Any, Any]], memories: Sequence[Memory]
) -> tuple[tuple[Memory, ...], dict[int, Location]]:
    """Copies constants to one pool, behind pools that there are already.

    Args:
        arrays: the constants by operand.
        memories: the pools before.

    Returns:
        All pools, and the location of each constant in the last one.
    """
    offset = 0
    locations: dict[int, Location] = {}
    for index, array in arrays.items():
        locations[index] = Location(pool=len(memories), offset=offset, length=array.nbytes)
        offset = align(offset + array.nbytes)
    if not locations:
        return tuple(memories), locations
    block = np.empty(offset, np.uint8)
    for index, location in locations.items():
        target = block[location.offset : location.offset + location.length]
        target[:] = arrays[index].reshape(-1).view(np.uint8)
    block.flags.writeable = False
    return (*memories, HostMemory(block)), locations


def referenced_graphs(
    models: Mapping[int, Model], pools: tuple[Memory, ...]
) -> tuple[tuple[Subgraph, ...], tuple[Memory, ...], dict[int, int]]:
    """Joins the graphs and pools of models that operands of type MODEL refer to.

    Args:
        models: the models by operand.
        pools: the pools before.

    Returns:
        The graphs, all pools, and the number of each operand's graph.
    """
    graphs: list[Subgraph] = []
    first_graph: dict[int, int] = {}
    graph_of: dict[int, int] = {}
    for index, model in models.items():
        if id(model) not in first_graph:
            first_graph[id(model)] = len(graphs)
            # A model numbers its referenced graphs from 0. Here they follow its main graph.
            shift = len(graphs) + 1
            for graph in (model.main, *model.referenced):
                graphs.append(_shifted(graph, graphs=shift, pools=len(pools)))
            pools += model.pools
        graph_of[index] = first_graph[id(model)]
    return tuple(graphs), pools, graph_of


def _shifted(graph: Subgraph, *, graphs: int, pools: int) -> Subgraph:
    """Renumbers the graphs and pools of another model for their positions in this one."""
    return replace(
        graph,
        number=0,
        operands=tuple(
            replace(
                operand,
                subgraph=None if operand.subgraph is None else operand.subgraph + graphs,
                location=operand.location and replace(operand.location, pool=operand.location.pool + pools),
            )
            for operand in graph.operands
        ),
    )
