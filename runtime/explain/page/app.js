"use strict";
// The state of the page, and what keys, pointers and controls do.
(() => {
  const { make, svg, shown, clipped, time, counted } = Text;
  const data = JSON.parse(document.getElementById("data").textContent);
  const LEAST_ZOOM = 0.04, MOST_ZOOM = 3, FAR = 0.42, MOST_FOUND = 60, HEATS = 8, SHAPE_COUNT = Drawing.PATTERNS;

  const state = { plan: 0, graph: 0, fuses: true, folds: true, constants: false, colour: "device", view: "graph", selected: null, zoom: 1, query: "" };
  const unfolded = new Set();
  const layouts = new Map();
  const app = { data, state, plan: data.plans[0], model: null, units: [], blocks: [], drawn: null };
  const isSmall = () => matchMedia("(max-width: 760px)").matches;
  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // ---- parts of the page
  const search = make("input", {
    type: "search", id: "search", placeholder: "Search operations, values, kernels", "aria-label": "Search", autocomplete: "off", spellcheck: "false",
    role: "combobox", "aria-expanded": "false", "aria-controls": "found", oninput: () => find(search.value), onkeydown: searchKey,
  });
  const found = make("ul", { id: "found", role: "listbox", "aria-label": "Results", hidden: true });
  const controls = make("div", { class: "controls" });
  const legend = make("ul", { class: "legend", "aria-label": "Devices" });
  const drawing = svg("svg", { id: "drawing", role: "presentation" });
  const stage = make("div", {
    class: "stage", id: "stage", tabindex: 0, role: "listbox", "aria-label": "Graph of the model", "aria-describedby": "hint",
  }, drawing);
  const map = make("canvas", { class: "map", "aria-hidden": "true" });
  const tablePane = make("div", { class: "list", id: "list", hidden: true, tabindex: 0 });
  const inner = make("div", { class: "inner" });
  const panel = make("aside", { class: "panel", id: "panel", "aria-label": "Details", tabindex: -1 },
    make("button", { type: "button", class: "close", "aria-label": "Close details", onclick: closePanel }, "×"), inner);
  const status = make("p", { class: "status", role: "status", "aria-live": "polite" });
  const zoomBar = make("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
    make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoomBy(1.25) }, "+"),
    make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoomBy(0.8) }, "−"),
    make("button", { type: "button", "aria-label": "Fit the graph", onclick: fit }, "⤢"));

  const details = make("button", { type: "button", class: "plan", onclick: () => select(null, false, true) }, "Plan");
  document.body.append(
    // Not in the drawing, since the legend needs the patterns beside the table, too.
    svg("svg", { class: "unseen", "aria-hidden": "true" }, Drawing.patterns()),
    make("a", { class: "skip", href: "#list", onclick: event => { event.preventDefault(); show({ view: "list" }); tablePane.focus(); } }, "Show the operations as a table"),
    make("header", {},
      make("h1", {}, shown(data.title)),
      make("div", { class: "finder", role: "search" }, search, found), controls, details),
    legend,
    make("main", {},
      make("div", { class: "view" }, stage, tablePane, map, zoomBar, status,
        make("p", { id: "hint", class: "unseen" }, "Arrow keys move between operations, Enter shows details, Space folds or unfolds.")),
      panel));

  app.swatch = number => svg("svg", { class: `swatch d${number % SHAPE_COUNT}`, width: 18, height: 12, viewBox: "0 0 18 12", "aria-hidden": "true" },
    svg("rect", { class: "box", x: 0.5, y: 0.5, width: 17, height: 11, rx: 2.5 }),
    svg("rect", { class: "bar", x: 1, y: 1, width: 16, height: 10, rx: 2, fill: `url(#pattern${number % SHAPE_COUNT})` }));
  app.meter = share => svg("svg", { class: "meter", width: 60, height: 4, viewBox: "0 0 60 4", "aria-hidden": "true" },
    svg("rect", { class: "back", width: 60, height: 4, rx: 2 }),
    svg("rect", { class: "front", width: Math.max(1, 60 * Math.min(1, share)), height: 4, rx: 2 }));
  app.totalUs = () => app.plan.kernels.reduce((sum, each) => sum + each.us, 0);
  app.graphName = number => {
    if (!number) return "Main graph";
    for (const graph of data.graphs) {
      const runner = graph.operations.find(each => each.graphs.includes(number));
      if (runner) return `Graph ${number}: ${clipped(runner.type, 20)} #${runner.number}`;
    }
    return `Graph ${number}`;
  };
  Object.assign(app, { select, show, toggle, jumpTo });
  const side = Panel.create(app);

  // ---- controls
  function option(text, value, chosen) {
    const made = make("option", { value }, text);
    made.selected = chosen;
    return made;
  }

  function choice(label, options, value, change) {
    if (options.length < 2) return null;
    return make("label", {}, make("span", {}, label), make("select", { onchange: event => change(event.target.value) },
      options.map(([text, key]) => option(text, key, key === String(value)))));
  }

  function check(label, key, isUseful) {
    if (!isUseful) return null;
    const box = make("input", { type: "checkbox", onchange: () => show({ [key]: box.checked }) });
    box.checked = state[key];
    return make("label", { class: "check" }, box, label);
  }

  function drawControls() {
    const hasTimes = app.plan.kernels.some(each => each.graph === state.graph);
    controls.replaceChildren(...[
      choice("Plan", data.plans.map((plan, n) => [n ? clipped((plan.notes[0] || `what if ${n}`).split(":")[0], 60) : "as planned", String(n)]), state.plan, v => show({ plan: Number(v) })),
      choice("Graph", data.graphs.map(graph => [app.graphName(graph.number), String(graph.number)]), state.graph, v => show({ graph: Number(v) })),
      hasTimes ? choice("Colour", [["device", "device"], ["time", "time"]], state.colour, v => show({ colour: v })) : null,
      check("Kernels", "fuses", app.model.operations.some(o => o.kernels.some(k => k.operations.length > 1))),
      check("Constants", "constants", app.model.operations.some(o => o.isConstant)),
      check("Fold repeats", "folds", app.blocks.length > 0),
      make("div", { class: "views", role: "group", "aria-label": "View" }, ["graph", "list"].map(view =>
        make("button", { type: "button", "aria-pressed": String(state.view === view), onclick: () => show({ view }) }, view === "graph" ? "Graph" : "Table"))),
    ].filter(Boolean));
    const total = app.plan.operations.length;
    legend.replaceChildren(...app.plan.shares.map(([number, operations]) => make("li", {}, app.swatch(number),
      make("b", {}, shown(data.devices[number])), ` ${total ? Math.round(100 * operations / total) : 0} %`,
      make("span", { class: "quiet" }, ` ${counted(operations, "operation")}`))),
      app.plan.transfers.length ? make("li", {}, svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("path", { class: "edge crossing", d: "M1 4H25" })),
        make("b", {}, `${app.plan.transfers.length}`), " between devices") : null);
    for (const each of [...legend.childNodes]) if (each.nodeType === 3) each.remove();
  }

  // ---- drawing
  function show(changes) {
    const before = state.graph;
    Object.assign(state, changes);
    if ("folds" in changes) unfolded.clear();
    if (state.graph !== before || "plan" in changes) {
      if (state.graph !== before) { state.selected = null; unfolded.clear(); }
      if (!("plan" in changes)) stage.dataset.fresh = "yes";
    }
    app.plan = data.plans[state.plan];
    refresh();
  }

  function key(block) {
    return `${state.graph}:${block.start}:${block.length}`;
  }

  function refresh() {
    app.model = Units.operationsOf(data, app.plan, state.graph);
    app.units = Units.unitsOf(app.model, state.fuses, state.constants);
    app.blocks = Units.repeats(app.model, app.units);
    const layoutKey = JSON.stringify([state.plan, state.graph, state.fuses, state.folds, state.constants, [...unfolded].sort()]);
    let drawn = layouts.get(layoutKey);
    if (!drawn) {
      const start = performance.now();
      drawn = Units.nodesOf(app.model, app.units, app.blocks, block => state.folds && !unfolded.has(key(block)));
      Drawing.layOut(app.model, drawn);
      drawn.layoutMs = performance.now() - start;
      layouts.set(layoutKey, drawn);
    }
    app.drawn = drawn;
    document.documentElement.dataset.layoutMs = Math.round(drawn.layoutMs);
    document.documentElement.dataset.nodes = drawn.nodes.length;
    const most = Math.max(1e-9, ...drawn.nodes.filter(each => each.kind !== "more").map(each => each.us || 0));
    const moved = new Set(app.plan.changes.filter(([graph]) => graph === state.graph).map(([, number]) => number));
    drawing.replaceChildren(...Drawing.draw(app.model, drawn, {
      nodeClass: node => [
        node.device === null ? "" : `d${node.device % SHAPE_COUNT}`,
        state.colour === "time" && node.us !== null ? `heat heat${Math.min(HEATS - 1, Math.floor(HEATS * Math.sqrt(Math.min(1, node.us / most))))}` : "",
        node.operations.some(place => moved.has(app.model.operations[place].number)) ? "changed" : "",
        node.operations.some(place => app.model.operations[place].graphs.length) ? "runner" : "",
      ].join(" "),
      nodeLabel, timeShare: node => (node.kind === "more" ? 0 : (node.us || 0) / most),
      edgeClass: edge => {
        const source = drawn.nodes[edge.source], target = drawn.nodes[edge.target];
        return source.device !== null && target.device !== null && source.device !== target.device ? "crossing" : "";
      },
      frameText: frame => state.folds && !unfolded.has(key(frame.block))
        ? `block 1 of ${frame.block.count}` : `block ${frame.number + 1} of ${frame.block.count}`,
    }));
    drawing.setAttribute("viewBox", `0 0 ${drawn.width} ${drawn.height}`);
    const list = state.view === "list";
    stage.hidden = list;
    map.hidden = list;
    zoomBar.hidden = list;
    tablePane.hidden = !list;
    tablePane.replaceChildren(...(list ? [side.operationTable()] : []));
    document.body.dataset.colour = state.colour;
    drawControls();
    if (stage.dataset.fresh !== "no") first(); else setZoom(state.zoom);
    mark();
    drawPanel();
  }

  function nodeLabel(node) {
    if (node.kind === "input" || node.kind === "output") return `${node.kind} ${node.lines[0].left}`;
    const where = `on ${shown(data.devices[node.device])}`;
    const takes = node.us === null ? "" : `, ${time(node.us)}`;
    if (node.kind === "more") return `${node.block.count - 1} more identical blocks, ${counted(node.count, "operation")}, folded, ${where}${takes}`;
    const names = node.operations.slice(0, 6).map(place => `${app.model.operations[place].number} ${clipped(app.model.operations[place].type, 40)}`);
    const what = node.kind === "kernel" ? `kernel of ${counted(node.operations.length, "operation")}: ${names.join(", ")}` : `operation ${names[0]}`;
    return `${what}, ${where}${takes}`;
  }

  // ---- zoom and position
  function setZoom(zoom, x, y) {
    const rect = stage.getBoundingClientRect();
    const px = x === undefined ? rect.width / 2 : x - rect.left, py = y === undefined ? rect.height / 2 : y - rect.top;
    const box = drawing.getBoundingClientRect();
    const gx = (px - (box.left - rect.left)) / state.zoom, gy = (py - (box.top - rect.top)) / state.zoom;
    state.zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, zoom));
    drawing.setAttribute("width", app.drawn.width * state.zoom);
    drawing.setAttribute("height", app.drawn.height * state.zoom);
    drawing.classList.toggle("far", state.zoom < FAR);
    const after = drawing.getBoundingClientRect();
    stage.scrollLeft += (after.left - rect.left) + gx * state.zoom - px;
    stage.scrollTop += (after.top - rect.top) + gy * state.zoom - py;
    drawMap();
  }

  function zoomBy(factor, x, y) {
    setZoom(state.zoom * factor, x, y);
  }

  function fit() {
    const { clientWidth, clientHeight } = stage;
    setZoom(Math.min(1.2, clientWidth / app.drawn.width, clientHeight / app.drawn.height));
    stage.scrollTop = 0;
  }

  // At first the text is readable, and the graph's beginning is in sight.
  function first() {
    if (!stage.clientWidth) return;
    stage.dataset.fresh = "no";
    const wanted = Math.min(stage.clientWidth / app.drawn.width, stage.clientHeight / app.drawn.height);
    setZoom(Math.max(isSmall() ? 0.7 : 0.8, Math.min(1, wanted)));
    const top = app.drawn.nodes.reduce((best, node) => (!best || node.y < best.y ? node : best), null);
    stage.scrollTop = 0;
    stage.scrollLeft = top ? top.x * state.zoom - stage.clientWidth / 2 : 0;
    drawMap();
  }

  function bringIntoView(node) {
    const rect = stage.getBoundingClientRect(), box = drawing.getBoundingClientRect();
    if (state.zoom < FAR) setZoom(0.8);
    const left = stage.scrollLeft + box.left - rect.left, top = stage.scrollTop + box.top - rect.top;
    stage.scrollTo({
      left: left + node.x * state.zoom - stage.clientWidth / 2, top: top + node.y * state.zoom - stage.clientHeight / 2,
      behavior: calm() ? "auto" : "smooth",
    });
  }

  // ---- the map of the whole graph beside it
  function drawMap() {
    const ratio = devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = map;
    const isUseful = app.drawn.height * state.zoom > 1.6 * stage.clientHeight || app.drawn.width * state.zoom > 1.6 * stage.clientWidth;
    map.classList.toggle("off", !isUseful);
    if (!isUseful || !width) return;
    map.width = width * ratio;
    map.height = height * ratio;
    const pen = map.getContext("2d");
    const style = getComputedStyle(document.body);
    pen.scale(width * ratio / app.drawn.width, height * ratio / app.drawn.height);
    for (const node of app.drawn.nodes) {
      pen.fillStyle = style.getPropertyValue(node.device === null ? "--quiet" : `--ink${node.device % SHAPE_COUNT}`);
      pen.fillRect(node.x - node.width / 2, node.y - node.height / 2, node.width, Math.max(node.height, 1.4 * app.drawn.height / height));
    }
    const marked = new Set([...drawing.querySelectorAll(".node.hit-by-search")].map(each => Number(each.dataset.node)));
    pen.fillStyle = style.getPropertyValue("--accent");
    for (const n of marked) pen.fillRect(0, app.drawn.nodes[n].y, app.drawn.width, 2 * app.drawn.height / height);
    const rect = stage.getBoundingClientRect(), box = drawing.getBoundingClientRect();
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.lineWidth = 1.5;
    const scaleX = width / box.width, scaleY = height / box.height;
    pen.strokeRect(
      Math.max(1, (rect.left - box.left) * scaleX), Math.max(1, (rect.top - box.top) * scaleY),
      Math.min(width - 2, stage.clientWidth * scaleX), Math.max(6, Math.min(height - 2, stage.clientHeight * scaleY)));
  }

  function moveByMap(event) {
    const rect = map.getBoundingClientRect();
    const box = drawing.getBoundingClientRect(), view = stage.getBoundingClientRect();
    const left = stage.scrollLeft + box.left - view.left, top = stage.scrollTop + box.top - view.top;
    stage.scrollTo(left + (event.clientX - rect.left) / rect.width * box.width - stage.clientWidth / 2,
      top + (event.clientY - rect.top) / rect.height * box.height - stage.clientHeight / 2);
  }

  // ---- selection
  // Selects {operation}, {value} or {node}; null for the plan.
  function select(what, moves, opens = true) {
    if (what && what.operation !== undefined && !app.drawn.nodeOf.has(what.operation)) show({ constants: true });
    state.selected = what;
    if (what && what.operation !== undefined && moves) {
      const node = app.drawn.nodes[app.drawn.nodeOf.get(what.operation)];
      if (node && node.kind === "more") {
        unfolded.add(key(node.block));
        refresh();
      }
    }
    if (state.view === "list" && moves) show({ view: "graph" });
    mark();
    drawPanel();
    document.body.classList.toggle("open", opens);
    const node = chosenNode();
    if (node && moves) requestAnimationFrame(() => bringIntoView(node));
    if (!opens) return;
    panel.scrollTop = 0;
    requestAnimationFrame(drawMap);
  }

  function chosenNode() {
    const { selected } = state;
    if (!selected) return null;
    if (selected.operation !== undefined) return app.drawn.nodes[app.drawn.nodeOf.get(selected.operation)];
    return selected.node ? app.drawn.nodes.find(each => each.id === selected.node) : null;
  }

  function jumpTo(graph, number) {
    if (graph !== state.graph) show({ graph });
    const place = app.model.operations.findIndex(each => each.number === number);
    if (place >= 0) select({ operation: place }, true);
  }

  function mark() {
    for (const each of drawing.querySelectorAll(".selected, .near")) {
      each.classList.remove("selected", "near");
      if (each.hasAttribute("aria-selected")) each.setAttribute("aria-selected", "false");
    }
    stage.removeAttribute("aria-activedescendant");
    const { selected } = state;
    const node = chosenNode();
    const n = node ? app.drawn.nodes.indexOf(node) : -1;
    app.drawn.edges.forEach((edge, place) => {
      const isNear = node ? edge.source === n || edge.target === n
        : selected && selected.value !== undefined && edge.operands.includes(selected.value);
      if (isNear) drawing.querySelector(`.edge[data-edge="${place}"]`).classList.add("near");
    });
    if (!node) return;
    const box = drawing.querySelector(`[data-node="${n}"]`);
    box.classList.add("selected");
    box.setAttribute("aria-selected", "true");
    stage.setAttribute("aria-activedescendant", box.id);
  }

  function drawPanel() {
    inner.replaceChildren(...side.content().flat(3).filter(Boolean));
  }

  function closePanel() {
    document.body.classList.remove("open");
    if (state.selected) select(null, false, false);
    stage.focus({ preventScroll: true });
    requestAnimationFrame(drawMap);
  }

  function toggle(block) {
    const id = key(block);
    if (unfolded.has(id)) unfolded.delete(id); else unfolded.add(id);
    const anchor = app.units[block.start].operations[0];
    state.selected = null;
    refresh();
    select({ operation: anchor }, true, !isSmall());
    status.textContent = unfolded.has(id) ? `${block.count} blocks unfolded` : `${block.count} blocks folded`;
  }

  // ---- search
  function matches(query) {
    const wanted = query.trim().toLowerCase();
    if (!wanted) return [];
    return app.model.operations.filter(operation => {
      if (wanted === `#${operation.number}` || wanted === `${operation.number}`) return true;
      const texts = [operation.type, data.devices[operation.placement.device], ...operation.kernels.map(each => each.name),
        ...operation.outputs.map(([, operand]) => app.model.values.get(operand).name)];
      return texts.some(text => text.toLowerCase().includes(wanted));
    });
  }

  function find(query) {
    state.query = query;
    const all = matches(query);
    const nodes = new Set(all.map(each => app.drawn.nodeOf.get(each.place)).filter(each => each !== undefined));
    drawing.classList.toggle("searching", all.length > 0);
    for (const each of drawing.querySelectorAll(".node")) each.classList.toggle("hit-by-search", nodes.has(Number(each.dataset.node)));
    const shownOnes = all.slice(0, MOST_FOUND).map((operation, n) => {
      const value = operation.outputs.length ? app.model.values.get(operation.outputs[0][1]).name : "";
      return make("li", { role: "option", id: `found-${n}`, "data-place": operation.place, onclick: () => take(operation.place) },
        app.swatch(operation.placement.device), make("b", {}, `#${operation.number} ${clipped(operation.type, 40)}`), make("span", { class: "quiet" }, ` ${clipped(value, 60)}`));
    });
    const rest = all.length > MOST_FOUND ? [make("li", { class: "quiet", role: "presentation" }, `and ${all.length - MOST_FOUND} more`)] : [];
    found.replaceChildren(...shownOnes, ...rest);
    found.hidden = !query.trim();
    if (query.trim() && !all.length) found.append(make("li", { class: "quiet", role: "presentation" }, "nothing found"));
    search.setAttribute("aria-expanded", String(!found.hidden));
    search.removeAttribute("aria-activedescendant");
    status.textContent = query.trim() ? counted(all.length, "match").replace("matchs", "matches") : "";
    drawMap();
  }

  function take(place) {
    found.hidden = true;
    search.setAttribute("aria-expanded", "false");
    select({ operation: place }, true);
  }

  function searchKey(event) {
    const options = [...found.querySelectorAll("[data-place]")];
    const now = options.findIndex(each => each.id === search.getAttribute("aria-activedescendant"));
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!options.length) return;
      const next = options[(now + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length];
      options.forEach(each => each.setAttribute("aria-selected", String(each === next)));
      search.setAttribute("aria-activedescendant", next.id);
      next.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && options.length) {
      event.preventDefault();
      take(Number(options[Math.max(0, now)].dataset.place));
    } else if (event.key === "Escape") {
      search.value = "";
      find("");
      stage.focus({ preventScroll: true });
    }
  }

  // ---- keys of the graph
  function neighbour(direction) {
    const { nodes, edges } = app.drawn;
    const node = chosenNode();
    if (!node) return nodes.reduce((best, each) => (!best || each.y < best.y ? each : best), null);
    const n = nodes.indexOf(node);
    const distance = each => 3 * Math.abs(each.y - node.y) + Math.abs(each.x - node.x);
    const near = candidates => candidates.reduce((best, each) => (!best || distance(each) < distance(best) ? each : best), null);
    if (direction === "ArrowDown") return near(edges.filter(e => e.source === n).map(e => nodes[e.target]));
    if (direction === "ArrowUp") return near(edges.filter(e => e.target === n).map(e => nodes[e.source]));
    const sign = direction === "ArrowRight" ? 1 : -1;
    return near(nodes.filter(each => each !== node && sign * (each.x - node.x) > 0 && Math.abs(each.y - node.y) < 40));
  }

  function stageKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      const next = neighbour(event.key);
      if (!next) return;
      select({ node: next.id }, true, document.body.classList.contains("open"));
      status.textContent = nodeLabel(next);
    } else if (event.key === "Enter" && chosenNode()) {
      document.body.classList.add("open");
      panel.focus();
    } else if (event.key === " " && chosenNode()) {
      event.preventDefault();
      const node = chosenNode();
      const block = node.kind === "more" ? node.block : blockOf(node);
      if (block) toggle(block);
    }
  }

  function blockOf(node) {
    const place = app.units.findIndex(each => each.id === node.id);
    return app.blocks.find(each => place >= each.start && place < each.start + each.length * each.count);
  }

  stage.addEventListener("keydown", stageKey);
  document.addEventListener("keydown", event => {
    if (event.target.matches("input, select")) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") fit();
    else if (event.key === "Escape") closePanel();
  });

  // ---- pointers
  let drag = null, pinch = null, wasDragged = false;
  stage.addEventListener("pointerdown", event => {
    wasDragged = false;
    if (event.pointerType === "mouse" && event.button === 0) drag = { x: event.clientX, y: event.clientY, left: stage.scrollLeft, top: stage.scrollTop };
  });
  addEventListener("pointermove", event => {
    if (!drag) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!wasDragged && Math.hypot(dx, dy) < 4) return;
    wasDragged = true;
    stage.classList.add("dragging");
    stage.scrollTo(drag.left - dx, drag.top - dy);
  });
  addEventListener("pointerup", () => { drag = null; stage.classList.remove("dragging"); });
  stage.addEventListener("click", event => {
    if (wasDragged) return;
    const box = event.target.closest("[data-node]");
    if (box) {
      const node = app.drawn.nodes[Number(box.dataset.node)];
      if (node.kind === "more") toggle(node.block);
      else select({ node: node.id }, false);
      return;
    }
    const line = event.target.closest("[data-edge]");
    if (line) {
      const { operands } = app.drawn.edges[Number(line.dataset.edge)];
      select({ value: operands[0] }, false);
    } else if (state.selected) select(null, false, document.body.classList.contains("open") && !isSmall());
  });
  stage.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * 0.004), event.clientX, event.clientY);
  }, { passive: false });
  const spread = touches => ({
    size: Math.hypot(touches[0].clientX - touches[1].clientX, touches[0].clientY - touches[1].clientY),
    x: (touches[0].clientX + touches[1].clientX) / 2, y: (touches[0].clientY + touches[1].clientY) / 2,
  });
  stage.addEventListener("touchstart", event => {
    pinch = event.touches.length === 2 ? { ...spread(event.touches), zoom: state.zoom } : null;
  }, { passive: true });
  stage.addEventListener("touchmove", event => {
    if (!pinch || event.touches.length !== 2) return;
    event.preventDefault();
    const now = spread(event.touches);
    setZoom(pinch.zoom * now.size / pinch.size, now.x, now.y);
  }, { passive: false });
  stage.addEventListener("scroll", () => requestAnimationFrame(drawMap), { passive: true });
  map.addEventListener("pointerdown", event => { map.setPointerCapture(event.pointerId); moveByMap(event); });
  map.addEventListener("pointermove", event => { if (event.buttons) moveByMap(event); });
  addEventListener("resize", () => { if (stage.dataset.fresh !== "no") first(); drawMap(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMap);
  document.addEventListener("click", event => { if (!event.target.closest(".finder")) found.hidden = true; });

  document.title = shown(data.title);
  if (!isSmall()) document.body.classList.add("open");
  refresh();
  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.has("operation")) jumpTo(Number(asked.get("graph") || 0), Number(asked.get("operation")));
  document.documentElement.dataset.ready = "yes";
})();
