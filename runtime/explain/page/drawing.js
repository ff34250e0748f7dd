"use strict";
// Lays out nodes and edges with dagre, and draws them.
const Drawing = (() => {
  const { svg, clipped, shape, element, time, counted } = Text;
  const LINE = 17, PAD = 10, BAR = 8, ROWS = 7, ATTRIBUTES = 46, RANK_GAP = 44, NODE_GAP = 26, MARGIN = 28;
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const PATTERNS = 8;
  let pen = null;

  function width(text, isBold) {
    if (!pen) pen = document.createElement("canvas").getContext("2d");
    pen.font = (isBold ? "600 " : "") + FONT;
    return pen.measureText(text).width;
  }

  // Returns the lines of a node: [{left, right, kind}].
  function linesOf(model, node) {
    if (node.kind === "input" || node.kind === "output") {
      const [first] = node.values.map(each => model.values.get(each));
      const name = node.values.length > 1 ? counted(node.values.length, node.kind) : clipped(first.name || node.kind, 30);
      return [{ left: name, kind: "head" }];
    }
    if (node.kind === "more") {
      const { block } = node;
      return [
        { left: `× ${block.count - 1} more`, right: time(node.us), kind: "head" },
        { left: `${block.count - 1 === 1 ? "an identical block" : "identical blocks"}, ${counted(node.count, "operation")}`, kind: "detail" },
      ];
    }
    const members = node.operations.map(place => model.operations[place]);
    if (node.kind === "operation") {
      const [operation] = members;
      return [
        { left: clipped(operation.type, 34), right: activation(model, operation), kind: "head" },
        { left: detail(model, operation), right: time(node.us), kind: "detail" },
        ...[attributes(model, operation)].filter(Boolean).map(left => ({ left, kind: "detail" })),
      ];
    }
    const rows = members.slice(0, members.length > ROWS + 1 ? ROWS : members.length).map(operation => ({
      left: `#${operation.number} ${clipped(operation.type, 30)}`, right: activation(model, operation), kind: "row",
    }));
    if (rows.length < members.length) rows.push({ left: `… ${members.length - rows.length} more`, kind: "row" });
    return [{ left: node.kernels.length > 1 ? counted(node.kernels.length, "kernel") : "kernel", right: time(node.us), kind: "kernel" }, ...rows];
  }

  function activation(model, operation) {
    const found = operation.inputs.find(([name]) => name === "activation");
    const content = found ? Units.contentOf(model, found) : "";
    return content === "NONE" ? "" : clipped(content, 12);
  }

  // The attributes that say something; the panel has all of them.
  function attributes(model, operation) {
    const usual = { "0": /^padding|zero_point/, "1": /^(stride|dilation)|multiplier|^beta$/, "1.0": /^beta$/, False: /./, NONE: /./ };
    const found = new Map();
    for (const argument of operation.inputs) {
      const [name, operand] = argument, value = model.values.get(operand), content = Units.contentOf(model, argument);
      const isPlain = /^(FLOAT16|FLOAT32|INT32|UINT32|BOOL)$/.test(value.type) || (/INT(32|64)$/.test(value.type) && !/bias/.test(name) && value.shape.length < 2);
      if (value.kind !== "constant" || !content || !isPlain || name === "activation") continue;
      if (!(usual[content] && usual[content].test(name))) found.set(name, content);
    }
    const texts = [];
    for (const [name, content] of found) {
      const pair = /^(.*)_(width|height)$/.exec(name);
      const [width, height] = pair ? [found.get(`${pair[1]}_width`), found.get(`${pair[1]}_height`)] : [];
      if (!pair || !width || !height) texts.push(`${name.replace("padding_scheme", "padding")} ${content}`);
      else if (!texts.includes(`${pair[1]} ${width}×${height}`)) texts.push(`${pair[1]} ${width}×${height}`);
    }
    return clipped(texts.join(" · "), ATTRIBUTES);
  }

  function detail(model, operation) {
    const weight = operation.inputs.map(([name, operand]) => [name, model.values.get(operand)])
      .find(([, value]) => value.kind === "constant" && value.shape && value.shape.length > 1);
    const extra = weight ? ` · ${clipped(weight[0], 12)} ${shape(weight[1].shape)}` : "";
    const inner = operation.graphs.length ? ` · graph ${operation.graphs.join(", ")}` : "";
    return `#${operation.number}${clipped(extra, 40)}${inner}`;
  }

  function measure(model, node) {
    node.lines = linesOf(model, node);
    const widest = Math.max(...node.lines.map(line =>
      width(line.left, line.kind !== "detail") + (line.right ? width(line.right, false) + 18 : 0)));
    const isEnd = node.kind === "input" || node.kind === "output";
    node.width = Math.max(isEnd ? 60 : 120, Math.ceil(widest) + 2 * PAD + (isEnd ? 6 : BAR));
    node.height = isEnd ? 26 : node.lines.length * LINE + 13;
  }

  // Gives each node its centre, and each edge its points.
  function layOut(model, drawn) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ ranksep: RANK_GAP, nodesep: NODE_GAP, edgesep: 16, marginx: MARGIN, marginy: MARGIN });
    graph.setDefaultEdgeLabel(() => ({}));
    drawn.nodes.forEach((node, n) => {
      measure(model, node);
      graph.setNode(String(n), { width: node.width, height: node.height });
    });
    drawn.edges.forEach(edge => {
      // What reads the newest value continues the main path, which should be straight.
      const isNext = edge.target === edge.source + 1;
      graph.setEdge(String(edge.source), String(edge.target), { weight: isNext ? 4 : 1 });
    });
    dagre.layout(graph);
    drawn.nodes.forEach((node, n) => {
      const { x, y } = graph.node(String(n));
      Object.assign(node, { x, y });
    });
    for (const edge of drawn.edges) edge.points = graph.edge(String(edge.source), String(edge.target)).points;
    drawn.width = graph.graph().width || 200;
    drawn.height = graph.graph().height || 100;
    route(drawn);
  }

  // Turns points into curves that are vertical beside nodes and bend only between ranks.
  function route(drawn) {
    const heights = new Map();
    for (const node of drawn.nodes) heights.set(Math.round(node.y), Math.max(heights.get(Math.round(node.y)) || 0, node.height));
    const out = drawn.nodes.map(() => []), into = drawn.nodes.map(() => []);
    for (const edge of drawn.edges) {
      edge.inner = edge.points.slice(1, -1).filter(point => heights.has(Math.round(point.y)));
      const { source, target } = edge;
      out[source].push({ edge, x: (edge.inner[0] || drawn.nodes[target]).x });
      into[target].push({ edge, x: (edge.inner[edge.inner.length - 1] || drawn.nodes[source]).x });
    }
    const spread = (ends, node, key) => {
      ends.sort((a, b) => a.x - b.x);
      const gap = Math.min(18, (node.width - 40) / Math.max(1, ends.length - 1));
      ends.forEach((end, n) => { end.edge[key] = node.x + (n - (ends.length - 1) / 2) * gap; });
    };
    drawn.nodes.forEach((node, n) => {
      spread(out[n], node, "fromX");
      spread(into[n], node, "toX");
    });
    for (const edge of drawn.edges) {
      const source = drawn.nodes[edge.source], target = drawn.nodes[edge.target];
      const stops = [[edge.fromX, source.y + source.height / 2]];
      for (const { x, y } of edge.inner) {
        const half = heights.get(Math.round(y)) / 2;
        stops.push([x, y - half], [x, y + half]);
      }
      stops.push([edge.toX, target.y - target.height / 2 - 5]);
      edge.path = `M${at(stops[0])}`;
      for (let n = 1; n < stops.length; n++) {
        const [x0, y0] = stops[n - 1], [x1, y1] = stops[n];
        const middle = (y0 + y1) / 2;
        edge.path += Math.abs(x0 - x1) < 0.5 ? `L${at(stops[n])}` : `C${at([x0, middle])} ${at([x1, middle])} ${at(stops[n])}`;
      }
      edge.start = stops[0];
    }
  }

  function at([x, y]) {
    return `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`;
  }

  // Returns the content of the drawing; `look` tells classes, labels and texts of nodes and edges.
  function draw(model, drawn, look) {
    const edges = svg("g", { class: "edges" }), labels = svg("g", { class: "labels" }), boxes = svg("g", {});
    const frames = svg("g", { class: "frames" });
    for (const frame of drawn.frames) {
      const made = frameOf(drawn, frame, look);
      if (made) frames.append(made);
    }
    const labelled = new Map();
    drawn.edges.forEach((edge, n) => {
      edges.append(
        svg("path", { class: `edge ${look.edgeClass(edge)}`, d: edge.path, "marker-end": "url(#arrow)", "data-edge": n }),
        svg("path", { class: "hit", d: edge.path, "data-edge": n }));
      for (const operand of edge.operands) {
        const key = `${edge.source} ${operand}`;
        const known = labelled.get(key);
        if (!known || known.start[0] < edge.start[0]) labelled.set(key, { start: edge.start, operand, node: edge.source });
      }
    });
    const perNode = new Map();
    for (const each of labelled.values()) perNode.set(each.node, [...(perNode.get(each.node) || []), each]);
    for (const [, found] of perNode) {
      found.sort((a, b) => a.start[0] - b.start[0]);
      const texts = found.map(({ operand }) => {
        const value = model.values.get(operand);
        return clipped(`${shape(value.shape)} ${element(value.type)}`, 34);
      });
      // Values that leave a node beside each other would hide each other's texts.
      const isApart = found.every(({ start }, n) => !n || start[0] - found[n - 1].start[0] > width(texts[n - 1], false));
      const shown = isApart ? found : found.slice(-1);
      shown.forEach(({ start }, n) => {
        const text = isApart || new Set(texts).size === 1 ? texts[n] : counted(found.length, "value");
        labels.append(svg("text", { x: start[0] + 6, y: start[1] + 14 }, text));
      });
    }
    drawn.nodes.forEach((node, n) => boxes.append(boxOf(node, n, look)));
    return [frames, edges, labels, boxes];
  }

  function frameOf(drawn, frame, look) {
    const ids = new Set(frame.ids);
    const members = drawn.nodes.filter(node => ids.has(node.id));
    const left = Math.min(...members.map(n => n.x - n.width / 2)) - 14, right = Math.max(...members.map(n => n.x + n.width / 2)) + 14;
    const top = Math.min(...members.map(n => n.y - n.height / 2)) - 12, bottom = Math.max(...members.map(n => n.y + n.height / 2)) + 12;
    const isMixed = drawn.nodes.some(n => !ids.has(n.id) && n.x + n.width / 2 > left && n.x - n.width / 2 < right &&
      n.y + n.height / 2 > top && n.y - n.height / 2 < bottom);
    if (isMixed) return null;
    return svg("g", {},
      svg("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 12 }),
      svg("text", { x: left + 10, y: top - 5 }, look.frameText(frame)));
  }

  function boxOf(node, n, look) {
    const left = node.x - node.width / 2, top = node.y - node.height / 2;
    const isEnd = node.kind === "input" || node.kind === "output";
    const group = svg("g", {
      class: `node ${node.kind} ${look.nodeClass(node)}`, id: `n-${node.id}`, "data-node": n,
      role: "option", "aria-label": look.nodeLabel(node), "aria-selected": "false",
    });
    if (node.kind === "more") {
      for (const shift of [8, 4]) {
        group.append(svg("rect", { class: "box behind", x: left + shift, y: top + shift, width: node.width, height: node.height, rx: 7 }));
      }
    }
    group.append(svg("rect", { class: "box", x: left, y: top, width: node.width, height: node.height, rx: isEnd ? 13 : 7 }));
    if (!isEnd) {
      group.append(svg("path", {
        class: "bar", fill: `url(#pattern${node.device % PATTERNS})`,
        d: `M${left + BAR} ${top + 0.5}h-1a6.5 6.5 0 0 0 -6.5 6.5v${node.height - 14}a6.5 6.5 0 0 0 6.5 6.5h1z`,
      }));
    }
    let y = top + (isEnd ? 17 : 20);
    const start = left + (isEnd ? PAD + 3 : BAR + PAD), end = left + node.width - PAD;
    node.lines.forEach((line, number) => {
      if (line.kind === "row" && number === 1) {
        group.append(svg("path", { class: "rule", d: `M${left + BAR} ${y - 12.5}H${left + node.width}` }));
      }
      group.append(svg("text", { class: line.kind, x: start, y }, line.left));
      if (line.right) group.append(svg("text", { class: `${line.kind} right`, x: end, y, "text-anchor": "end" }, line.right));
      y += LINE;
    });
    const share = look.timeShare(node);
    if (share > 0) {
      const whole = node.width - BAR - 6;
      group.append(svg("rect", { class: "time", x: left + BAR + 1, y: top + node.height - 4, width: Math.max(1.5, share * whole), height: 3, rx: 1.5 }));
    }
    return group;
  }

  // The stripes and dots that tell devices apart without colour.
  function patterns() {
    const shapes = [
      [], ["M-2 6L6 -2M2 10L10 2"], ["M0 2H8M0 6H8"], ["M2 2h.01M6 6h.01", "dots"], ["M0 0L8 8M8 0L0 8"],
      ["M4 0V8"], ["M-2 2L6 10M2 -2L10 6"], ["M0 4H8M4 0V8"],
    ];
    return svg("defs", {},
      svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 4, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" },
        svg("path", { d: "M0 .5L8 4L0 7.5z" })),
      shapes.map(([path, kind], n) => svg("pattern", { id: `pattern${n}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
        svg("rect", { width: 8, height: 8, class: `ink${n}` }),
        path ? svg("path", { d: path, class: kind || "stripes" }) : null)));
  }

  return { layOut, draw, patterns, PATTERNS };
})();
