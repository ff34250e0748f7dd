"use strict";
// What a graph shows: an operation or kernel is a unit; identical blocks of units fold into one.
const Units = (() => {
  // Blocks are found up to this length, and fold if that hides at least so many units.
  const LONGEST_BLOCK = 400, LEAST_HIDDEN = 4;
  // With more inputs or outputs than this, those of one unit are drawn as one.
  const MOST_ENDS = 8;

  // Returns operations with their values, predecessors and placement.
  function operationsOf(data, plan, number) {
    const graph = data.graphs.find(each => each.number === number);
    const values = new Map(graph.values.map(value => [value.operand, value]));
    const placed = new Map();
    for (const each of plan.operations) {
      if (each.graph === number) placed.set(each.number, each);
    }
    const writer = new Map();
    graph.operations.forEach((operation, place) => {
      for (const [, operand] of operation.outputs) writer.set(operand, place);
    });
    const parent = parentOf(data, plan, number);
    const operations = graph.operations.map((operation, place) => ({
      ...operation,
      place,
      placement: placed.get(operation.number) || parent,
      isInner: !placed.has(operation.number),
      before: [...new Set(operation.inputs.map(([, operand]) => writer.get(operand)))]
        .filter(each => each !== undefined && each !== place),
      us: null,
      kernels: [],
    }));
    const byNumber = new Map(operations.map(each => [each.number, each]));
    for (const kernel of plan.kernels) {
      if (kernel.graph !== number) continue;
      for (const each of kernel.operations) byNumber.get(each)?.kernels.push(kernel);
    }
    // What depends on constants alone is computed once. It would hide the rest of the graph.
    for (const each of operations) {
      each.isConstant = each.inputs.length > 0 && each.inputs.every(([, operand]) => writer.has(operand)
        ? operations[writer.get(operand)].isConstant === true : ["constant", "none"].includes(values.get(operand).kind))
        && !each.graphs.length && !each.outputs.some(([, operand]) => graph.outputs.includes(operand));
    }
    const readers = new Map();
    operations.forEach((operation, place) => {
      for (const [, operand] of operation.inputs) {
        if (!readers.has(operand)) readers.set(operand, new Set());
        readers.get(operand).add(place);
      }
    });
    return { graph, values, writer, readers, operations, byNumber };
  }

  // The placement of the operation that runs a graph which is not placed by itself.
  function parentOf(data, plan, number) {
    const seen = new Set();
    let inner = number;
    while (!seen.has(inner)) {
      seen.add(inner);
      for (const graph of data.graphs) {
        const runner = graph.operations.find(each => each.graphs.includes(inner));
        if (!runner) continue;
        const found = plan.operations.find(e => e.graph === graph.number && e.number === runner.number);
        if (found) return { ...found, reason: `it runs inside of operation ${runner.number} ${runner.type}` };
        inner = graph.number;
        break;
      }
    }
    return { device: 0, steps: [], reason: "no operation runs this graph", costs: [], rejected: [] };
  }

  // Returns the units of a graph in an order in which each follows those that it reads.
  function unitsOf(model, fuses, showsConstants) {
    const drawn = model.operations.filter(each => showsConstants || !each.isConstant);
    const groups = fuses ? kernelGroups(model, drawn) : drawn.map(each => [each.place]);
    const units = inOrder(model, groups).map((n, place) => unit(model, groups[n], place));
    const owner = new Map();
    units.forEach((each, place) => each.operations.forEach(operation => owner.set(operation, place)));
    for (const each of units) {
      each.before = [...new Set(each.operations.flatMap(o => model.operations[o].before.map(b => owner.get(b))))]
        .filter(other => other !== undefined && other !== each.place);
    }
    return units;
  }

  function sharesStep(one, other) {
    return one.placement.steps.some(step => other.placement.steps.includes(step));
  }

  // Returns the places of the operations of each kernel, and of each operation without one.
  function kernelGroups(model, operations) {
    const members = new Map(), owner = new Map(), groups = [];
    for (const operation of operations) {
      // Of several, the last one computes the result.
      const kernel = operation.kernels[operation.kernels.length - 1];
      const sources = new Set(operation.before.map(place => owner.get(place)).filter(Boolean));
      let own = kernel ? members.get(kernel) : null;
      // A view, such as RESHAPE, needs no kernel. It belongs to the one whose result it shows, unless
      // that is another step's: not all devices tell their kernels.
      if (!kernel && !operation.graphs.length && sources.size === 1 &&
          operation.before.every(place => sharesStep(operation, model.operations[place]))) {
        own = [...sources].find(each => each.isKernel);
      }
      if (!own || dependOn(own, sources)) {
        own = { places: [], sources: new Set(), isKernel: Boolean(kernel) };
        groups.push(own);
        if (kernel) members.set(kernel, own);
      }
      own.places.push(operation.place);
      for (const source of sources) if (source !== own) own.sources.add(source);
      owner.set(operation.place, own);
    }
    return groups.map(each => each.places);
  }

  // Whether groups need results of a group by way of others. An operation that reads them cannot be
  // drawn in that group, as when a kernel writes its part of a concatenation long before the others.
  function dependOn(group, sources) {
    const [first] = group.places;
    const left = [...sources].filter(each => each !== group), seen = new Set(left);
    while (left.length) {
      const each = left.pop();
      if (each.places[each.places.length - 1] < first) continue;
      if (each.sources.has(group)) return true;
      for (const source of each.sources) {
        if (seen.has(source)) continue;
        seen.add(source);
        left.push(source);
      }
    }
    return false;
  }

  function inOrder(model, groups) {
    const owner = new Map();
    groups.forEach((group, n) => group.forEach(place => owner.set(place, n)));
    const after = groups.map(() => new Set());
    const missing = groups.map(() => 0);
    groups.forEach((group, n) => {
      const sources = new Set(group.flatMap(p => model.operations[p].before.map(b => owner.get(b))));
      sources.delete(n);
      sources.delete(undefined);
      for (const source of sources) {
        after[source].add(n);
        missing[n] += 1;
      }
    });
    const order = [], ready = [];
    groups.forEach((_, n) => { if (!missing[n]) ready.push(n); });
    while (ready.length) {
      // The file's order among those that are ready keeps blocks together.
      let first = 0;
      for (let each = 1; each < ready.length; each++) {
        if (groups[ready[each]][0] < groups[ready[first]][0]) first = each;
      }
      const [n] = ready.splice(first, 1);
      order.push(n);
      for (const next of after[n]) if (!--missing[next]) ready.push(next);
    }
    return order;
  }

  // The operation with which a kernel is shown: the first for whose result it is the last kernel.
  function homeOf(kernel, byNumber) {
    const own = kernel.operations.filter(number => byNumber.get(number)?.kernels.at(-1) === kernel);
    return own.length ? own[0] : kernel.operations[kernel.operations.length - 1];
  }

  function unit(model, places, place) {
    const operations = places.map(each => model.operations[each]);
    const numbers = new Set(operations.map(each => each.number));
    const kernels = [...new Set(operations.flatMap(each => each.kernels))]
      .filter(kernel => numbers.has(homeOf(kernel, model.byNumber)));
    const inside = new Set(places);
    const outputs = operations.flatMap(each => each.outputs.map(([, operand]) => operand))
      .filter(operand => {
        const readers = model.readers.get(operand);
        return !readers || model.graph.outputs.includes(operand) || [...readers].some(r => !inside.has(r));
      });
    return {
      kind: places.length > 1 ? "kernel" : "operation",
      id: `u${places[0]}`,
      place,
      operations: places,
      kernels,
      outputs,
      us: kernels.length ? kernels.reduce((sum, each) => sum + each.us, 0) : null,
      device: operations[0].placement.device,
      count: places.length,
    };
  }

  // Returns where blocks of units repeat: [{start, length, count}], not overlapping, in order.
  function repeats(model, units) {
    const kinds = units.map(each => each.operations.map(place => {
      const operation = model.operations[place];
      const results = operation.outputs.map(([, operand]) => {
        const value = model.values.get(operand);
        return `${value.type}${JSON.stringify(value.shape)}`;
      });
      return `${operation.type}:${results.join()}`;
    }).join("+") + `@${each.device}`);
    const cuts = crossings(units);
    const found = [];
    const longest = Math.min(LONGEST_BLOCK, units.length >> 1);
    for (let length = 1; length <= longest; length++) {
      let start = -1;
      for (let place = 0; place + length <= units.length; place++) {
        const same = place + length < units.length && kinds[place] === kinds[place + length];
        if (same && start < 0) start = place;
        if (same || start < 0) continue;
        const block = bestBlock(units, cuts, start, place + length - start, length);
        if (block && (block.count - 1) * length >= LEAST_HIDDEN) found.push(block);
        start = -1;
      }
    }
    found.sort((a, b) => (b.count - 1) * b.length - (a.count - 1) * a.length || a.length - b.length);
    const taken = new Uint8Array(units.length);
    const chosen = [];
    for (const each of found) {
      const end = each.start + each.length * each.count;
      let free = true;
      for (let place = each.start; place < end && free; place++) free = !taken[place];
      if (!free) continue;
      taken.fill(1, each.start, end);
      chosen.push(each);
    }
    return chosen.sort((a, b) => a.start - b.start);
  }

  // For each position, how many values pass from units before it to units after it.
  function crossings(units) {
    const last = units.map(each => each.place);
    for (const each of units) for (const source of each.before) last[source] = Math.max(last[source], each.place);
    const change = new Int32Array(units.length + 2);
    last.forEach((end, start) => { if (end > start) { change[start + 1] += 1; change[end + 1] -= 1; } });
    let sum = 0;
    return Array.from(change, each => (sum += each));
  }

  // A region in which each unit resembles the one `length` later: chooses where blocks begin so that
  // few values cross, and checks that they are connected alike.
  function bestBlock(units, cuts, start, size, length) {
    let best = null;
    const most = Math.floor(size / length);
    for (let offset = 0; offset < Math.min(length, size - 2 * length + 1); offset++) {
      const count = Math.floor((size - offset) / length);
      if (count < Math.max(2, most - 1)) break;
      const cut = cuts[start + offset];
      if (!best || cut < best.cut || (cut === best.cut && count > best.count)) {
        best = { start: start + offset, length, count, cut };
      }
    }
    if (!best) return null;
    const inner = (from, place) => units[from + place].before
      .map(each => each - from).filter(each => each >= 0).sort((a, b) => a - b).join();
    for (let block = 1; block < best.count; block++) {
      for (let place = 0; place < length; place++) {
        if (inner(best.start, place) !== inner(best.start + block * length, place)) best.count = block;
      }
    }
    return best.count >= 2 ? best : null;
  }

  // Returns the nodes to draw: all units, but of each folded repeat the first block only, followed
  // by one node for the others; and nodes for inputs and outputs of the graph.
  function nodesOf(model, units, blocks, isFolded) {
    const nodes = [];
    const owner = new Map();
    const frames = [];
    let place = 0;
    const addUnit = each => {
      owner.set(each.place, nodes.length);
      nodes.push({ ...each });
    };
    blocks.forEach((block, number) => {
      while (place < block.start) addUnit(units[place++]);
      const end = block.start + block.length * block.count;
      if (!isFolded(block)) {
        for (let n = 0; place < end; n++) {
          const ids = [];
          for (const stop = place + block.length; place < stop; place++) {
            ids.push(units[place].id);
            addUnit(units[place]);
          }
          frames.push({ block, number: n, ids });
        }
        return;
      }
      const ids = [];
      for (const stop = place + block.length; place < stop; place++) {
        ids.push(units[place].id);
        addUnit(units[place]);
      }
      frames.push({ block, number: 0, ids });
      const hidden = units.slice(place, end);
      hidden.forEach(each => owner.set(each.place, nodes.length));
      const inside = new Set(hidden.flatMap(each => each.operations));
      nodes.push({
        kind: "more",
        id: `m${number}`,
        block,
        operations: hidden.flatMap(each => each.operations),
        outputs: hidden.flatMap(each => each.outputs).filter(operand => {
          const readers = model.readers.get(operand);
          return model.graph.outputs.includes(operand) || [...(readers || [])].some(r => !inside.has(r));
        }),
        us: hidden.some(each => each.us !== null) ? hidden.reduce((sum, each) => sum + (each.us || 0), 0) : null,
        device: hidden[0].device,
        count: hidden.reduce((sum, each) => sum + each.count, 0),
      });
      place = end;
    });
    while (place < units.length) addUnit(units[place++]);
    const nodeOf = new Map();
    nodes.forEach((node, n) => node.operations.forEach(operation => nodeOf.set(operation, n)));
    const edges = new Map();
    const connect = (source, target, operand) => {
      if (source === target || source === undefined || target === undefined) return;
      const key = `${source} ${target}`;
      if (!edges.has(key)) edges.set(key, { source, target, operands: new Set() });
      edges.get(key).operands.add(operand);
    };
    model.operations.forEach(operation => {
      for (const [, operand] of operation.inputs) {
        const writer = model.writer.get(operand);
        if (writer !== undefined) connect(nodeOf.get(writer), nodeOf.get(operation.place), operand);
      }
    });
    addEnds(model, nodes, nodeOf, connect);
    return { nodes, nodeOf, frames, edges: [...edges.values()].map(e => ({ ...e, operands: [...e.operands] })) };
  }

  function addEnds(model, nodes, nodeOf, connect) {
    const add = (kind, operands, groupOf) => {
      const groups = new Map();
      operands.forEach((operand, n) => {
        const key = operands.length > MOST_ENDS ? groupOf(operand) : `${n}`;
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(operand);
      });
      for (const members of groups.values()) {
        const n = nodes.length;
        nodes.push({
          kind, id: `${kind}${members[0]}`, operations: [], values: members,
          outputs: kind === "input" ? members : [], us: null, device: null, count: 0,
        });
        for (const operand of members) {
          if (kind === "output") {
            const writer = model.writer.get(operand);
            if (writer !== undefined) connect(nodeOf.get(writer), n, operand);
          } else {
            for (const reader of model.readers.get(operand) || []) connect(n, nodeOf.get(reader), operand);
          }
        }
      }
    };
    add("input", model.graph.inputs, operand =>
      [...new Set([...(model.readers.get(operand) || [])].map(r => nodeOf.get(r)))].join() || "unused");
    add("output", model.graph.outputs, operand => `${nodeOf.get(model.writer.get(operand))}`);
  }

  // The content of a constant argument, or what its number stands for.
  function contentOf(model, [, operand, meaning]) {
    return meaning || model.values.get(operand).content;
  }

  return { operationsOf, unitsOf, repeats, nodesOf, contentOf };
})();
