"use strict";
// The side panel: what is known about the plan, an operation, a kernel, a value, or folded blocks.
const Panel = (() => {
  const { make, shown, clipped, shape, element, time, bytes, counted } = Text;
  const MOST_LISTED = 12;

  function create(app) {
    const { data } = app;

    function device(number) {
      return make("span", { class: "device" }, app.swatch(number), shown(data.devices[number]));
    }

    function table(name, columns, rows) {
      return make("div", { class: "wide" }, make("table", { "aria-label": name },
        make("thead", {}, make("tr", {}, columns.map(([name, isNumber]) => make("th", { scope: "col", class: isNumber ? "number" : null }, name)))),
        make("tbody", {}, rows.map(row => make("tr", { class: row.class }, row.cells.map((cell, n) =>
          make("td", { class: columns[n][1] ? "number" : null }, cell)))))));
    }

    function section(title, ...content) {
      const filled = content.flat().filter(Boolean);
      return filled.length ? make("section", {}, make("h3", {}, title), filled) : null;
    }

    // A list that shows the first few entries, and the others on request.
    function list(entries, kind = "ul") {
      const made = make(kind, {}, entries.slice(0, MOST_LISTED).map(each => make("li", {}, each)));
      if (entries.length <= MOST_LISTED) return made;
      const more = make("button", { type: "button", class: "link", onclick: () => {
        made.append(...entries.slice(MOST_LISTED).map(each => make("li", {}, each)));
        more.remove();
      } }, `Show all ${entries.length}`);
      return [made, more];
    }

    function jump(place) {
      const operation = app.model.operations[place];
      return make("button", { type: "button", class: "link", onclick: () => app.select({ operation: place }, true) },
        `#${operation.number} ${clipped(operation.type, 40)}`);
    }

    function pairs(entries) {
      return make("dl", {}, entries.filter(([, value]) => value !== "" && value !== null && value !== undefined)
        .map(([name, value]) => [make("dt", {}, shown(name)), make("dd", {}, typeof value === "string" ? shown(value) : value)]));
    }

    function valueText(value) {
      return `${element(value.type)} ${shape(value.shape)}`;
    }

    function quantisation(value) {
      if (value.channels) return `${value.channels} scales, one for each channel`;
      return value.scale ? `scale ${value.scale}, zero point ${value.zero}` : "";
    }

    // An argument: its name, where it comes from, and what it is.
    function argument([name, operand, meaning], isInput) {
      const value = app.model.values.get(operand);
      const writer = app.model.writer.get(operand);
      const readers = [...(app.model.readers.get(operand) || [])];
      const places = isInput ? (writer === undefined ? [] : [jump(writer)]) : readers.slice(0, MOST_LISTED).map(jump);
      return make("div", { class: "argument" },
        make("div", {}, make("strong", {}, shown(name)), " ",
          make("button", { type: "button", class: "link value", onclick: () => app.select({ value: operand }, false) }, valueText(value)),
          value.kind === "constant" || value.kind === "input" || value.kind === "output" ? make("span", { class: "tag" }, value.kind) : null),
        value.name ? make("div", { class: "name" }, shown(value.name)) : null,
        value.content ? make("div", { class: "name" }, `= ${shown(meaning || value.content)}`) : null,
        quantisation(value) ? make("div", { class: "quiet" }, quantisation(value)) : null,
        places.length ? make("div", { class: "quiet" }, isInput ? "from " : "to ", places.map((p, n) => [n ? ", " : "", p])) : null);
    }

    function costs(operation) {
      const { placement } = operation;
      const known = placement.costs.map(([, seconds]) => seconds).filter(seconds => seconds !== null);
      const most = Math.max(...known, 0);
      const chosen = placement.costs.find(([number]) => number === placement.device);
      const rows = placement.costs.map(([number, seconds, source]) => ({
        class: number === placement.device ? "chosen" : null,
        cells: [
          device(number),
          make("span", {}, seconds === null ? "no figure" : time(seconds * 1e6),
            seconds === null ? null : app.meter(most ? seconds / most : 0)),
          difference(seconds, chosen && chosen[1], number === placement.device),
          source,
        ],
      }));
      return rows.length ? table("What-ifs", [["device", false], ["predicted", true], ["change", true], ["known from", false]], rows) : null;
    }

    function difference(seconds, chosen, isChosen) {
      if (isChosen) return "chosen";
      if (seconds === null || chosen === null || chosen === undefined) return "";
      const change = seconds - chosen;
      return `${change < 0 ? "−" : "+"}${time(Math.abs(change) * 1e6) || "0"}`;
    }

    function refusals(operation) {
      return operation.placement.rejected.map(([number, reason]) =>
        make("div", { class: "reason" }, device(number), make("p", {}, shown(reason))));
    }

    function whatIf(operation) {
      const others = operation.placement.costs.filter(([number]) => number !== operation.placement.device);
      if (!others.length || operation.isInner || app.state.graph !== 0) return null;
      const lines = others.map(([number]) => {
        const name = data.devices[number];
        return make("li", {}, device(number), make("code", {}, shown(`compilation.explain(pin=nd.pin(${JSON.stringify(name)}, [${operation.number}]))`)));
      });
      return section("What if it ran elsewhere?", make("p", { class: "quiet" },
        "The change above is for this operation alone. A what-if also counts launches and transfers:"), make("ul", {}, lines));
    }

    // The operations that a kernel computes, which say more than its name.
    function kernelName(kernel) {
      const graph = data.graphs.find(each => each.number === kernel.graph);
      const types = kernel.operations.slice(0, 3).map(number => clipped((graph.operations.find(each => each.number === number) || { type: "" }).type, 24));
      const more = kernel.operations.length - types.length;
      const numbers = kernel.operations.slice(0, types.length).map(number => `#${number}`);
      return `${[...numbers, ...(more ? ["…"] : [])].join(", ")} ${types.join(" + ")}${more ? ` + ${more}` : ""}`;
    }

    function kernelFacts(kernel) {
      const total = app.totalUs();
      return pairs([
        ["name", kernel.name], ["how", kernel.reference ? "reference implementation, not a kernel" : kernel.label],
        ["time", `${time(kernel.us)}${total ? `, ${(100 * kernel.us / total).toFixed(1)} % of all kernels` : ""}`],
        ["device", kernel.device],
      ]);
    }

    function operationPanel(place) {
      const operation = app.model.operations[place];
      const { placement } = operation;
      const constants = operation.inputs.filter(([, operand]) => {
        const value = app.model.values.get(operand);
        return value.content && value.kind === "constant" && (!value.shape || value.shape.length < 2);
      });
      const attributes = new Set(constants);
      const kernels = operation.kernels;
      const change = app.plan.changes.find(([graph, number]) => graph === app.state.graph && number === operation.number);
      return [
        make("p", { class: "kicker" }, `operation ${operation.number}${placement.steps.length ? `, step ${placement.steps.join(", ")}` : ""}`),
        make("h2", {}, clipped(operation.type, 80)),
        make("p", {}, device(placement.device)),
        change ? make("p", { class: "moved" }, `This what-if moves it from ${shown(change[2])} to ${shown(change[3])}.`) : null,
        make("p", {}, shown(placement.reason)),
        costs(operation),
        section("Not on", ...refusals(operation)),
        section(kernels.length === 1 ? "Kernel" : "Kernels", ...kernels.map(kernel => [kernelFacts(kernel),
          kernel.operations.length > 1 ? make("p", { class: "quiet" }, `It fuses ${counted(kernel.operations.length, "operation")}.`) : null])),
        operation.graphs.length ? section("Runs", make("ul", {}, operation.graphs.map(number => make("li", {},
          make("button", { type: "button", class: "link", onclick: () => app.show({ graph: number }) }, app.graphName(number)))))) : null,
        section("Attributes", constants.length ? pairs(constants.map(each => [each[0], Units.contentOf(app.model, each)])) : null),
        section("Inputs", ...operation.inputs.filter(each => !attributes.has(each) && !["none", "graph"].includes(app.model.values.get(each[1]).kind))
          .map(each => argument(each, true))),
        section("Outputs", ...operation.outputs.map(each => argument(each, false))),
        whatIf(operation),
      ];
    }

    function kernelPanel(node) {
      const { kernels } = node;
      return [
        make("p", { class: "kicker" }, `${kernels.length === 1 ? "kernel" : "kernels"} of ${counted(node.operations.length, "operation")}`),
        make("h2", {}, kernels.length === 1 ? kernelName(kernels[0]) : counted(node.operations.length, "operation")),
        make("p", {}, device(node.device)),
        ...kernels.map(kernelFacts),
        section("Operations", list(node.operations.map(jump), "ol")),
      ];
    }

    function morePanel(node) {
      return [
        make("p", { class: "kicker" }, "folded"),
        make("h2", {}, `${counted(node.block.count - 1, "more block")} like the one above`),
        make("p", {}, device(node.device)),
        make("p", {}, `Each has the same ${counted(node.block.length, "unit")} with the same types, shapes and device. Together they have ${counted(node.count, "operation")}${node.us === null ? "" : `, which take ${time(node.us)}`}.`),
        make("p", {}, make("button", { type: "button", class: "action", onclick: () => app.toggle(node.block) }, "Unfold these blocks")),
        section("Operations", list(node.operations.map(jump))),
      ];
    }

    function valuePanel(operand) {
      const value = app.model.values.get(operand);
      const writer = app.model.writer.get(operand);
      const readers = [...(app.model.readers.get(operand) || [])];
      const moves = app.plan.transfers.filter(([graph, , , moved]) => graph === app.state.graph && moved.operand === operand);
      return [
        make("p", { class: "kicker" }, `operand ${operand}, ${value.kind}`),
        make("h2", { class: "name" }, value.name ? shown(value.name) : "a value without a name"),
        pairs([["type", shown(value.type)], ["shape", shape(value.shape)], ["size", bytes(value.bytes)],
          ["quantisation", quantisation(value)], ["content", value.content]]),
        moves.length ? section("Moves between devices", ...moves.map(([, from, to]) => make("p", {}, device(from), " → ", device(to)))) : null,
        section("Written by", writer === undefined ? null : jump(writer)),
        readers.length ? section("Read by", list(readers.map(jump))) : null,
      ];
    }

    function endPanel(node) {
      return [
        make("p", { class: "kicker" }, node.kind),
        make("h2", {}, counted(node.values.length, node.kind)),
        ...node.values.map(operand => argument([app.model.values.get(operand).name || `operand ${operand}`, operand], node.kind === "output")),
      ];
    }

    function planPanel() {
      const { plan } = app;
      const total = plan.operations.length;
      const kernels = [...plan.kernels].sort((a, b) => b.us - a.us).slice(0, 8);
      const best = Math.max(...plan.predicted.map(([, seconds]) => seconds), 0);
      return [
        make("p", { class: "kicker" }, "plan"),
        make("h2", {}, shown(data.title)),
        plan.before !== null ? make("p", { class: "moved" }, `A what-if: ${counted(plan.changes.length, "operation")} would move.`) : null,
        ...plan.notes.map(note => make("p", {}, shown(note))),
        table("Devices", [["device", false], ["operations", true], ["share", true], ["steps", true]], plan.shares.map(([number, operations, steps]) => ({
          cells: [device(number), operations.toLocaleString("en"), total ? `${(100 * operations / total).toFixed(1)} %` : "", `${steps}`],
        }))),
        plan.shares.length > 1 && make("p", { class: "quiet" }, `${counted(plan.transfers.length, "value")}, ${bytes(plan.transferred)}, move between devices.`),
        section("Predicted times", plan.predicted.length ? table("Predicted times", [["plan", false], ["time", true]],
          [...plan.predicted].sort((a, b) => a[1] - b[1]).map(([name, seconds]) => ({
            class: name === "the plan" ? "chosen" : null,
            cells: [shown(name), make("span", {}, time(seconds * 1e6), app.meter(best ? seconds / best : 0))],
          }))) : null),
        section("Slowest kernels", kernels.length ? table("Slowest kernels", [["kernel", false], ["time", true]], kernels.map(kernel => ({
          cells: [
            make("button", { type: "button", class: "link", onclick: () => app.jumpTo(kernel.graph, kernel.operations[0]) }, kernelName(kernel)),
            make("span", {}, time(kernel.us), app.meter(kernel.us / kernels[0].us)),
          ],
        }))) : null),
        section("Steps", list(plan.steps.map(step => [device(step.device),
          make("div", { class: "quiet" }, `step ${step.number}${step.graph ? `, graph ${step.graph}` : ""}: ${counted(step.operations.length, "operation")}, ${sizes("in", step.inputs)}, ${sizes("out", step.outputs)}`)]), "ol")),
        plan.refusals.length ? section("Why not elsewhere", list(plan.refusals.map(([number, type, reason, count]) =>
          [device(number), make("div", {}, `${count} × ${clipped(type, 60)}`), make("div", { class: "quiet" }, shown(reason))]))) : null,
        section("Keys", pairs([["arrows", "go to inputs, outputs and neighbours"], ["Enter", "show details"], ["Space", "fold or unfold"],
          ["/", "search"], ["+ − 0", "zoom, fit"], ["Esc", "close"]])),
      ];
    }

    function sizes(what, values) {
      const known = values.reduce((sum, each) => sum + (each.bytes || 0), 0);
      return `${values.some(each => each.bytes === null) ? "at least " : ""}${bytes(known)} ${what}`;
    }

    function content() {
      const { selected } = app.state;
      if (!selected) return planPanel();
      if (selected.value !== undefined) return valuePanel(selected.value);
      if (selected.operation !== undefined) return operationPanel(selected.operation);
      const node = app.drawn.nodes.find(each => each.id === selected.node);
      if (!node) return planPanel();
      if (node.kind === "kernel") return kernelPanel(node);
      if (node.kind === "more") return morePanel(node);
      if (node.kind === "operation") return operationPanel(node.operations[0]);
      return endPanel(node);
    }

    // Lists all operations of the graph as a table, for screen readers, small screens and copying.
    function operationTable() {
      const rows = app.model.operations.map(operation => {
        const [, output] = operation.outputs[0] || [];
        const value = app.model.values.get(output);
        const us = operation.kernels.reduce((sum, each) => sum + each.us / each.operations.length, 0);
        return { cells: [
          `${operation.number}`, jump(operation.place), device(operation.placement.device), operation.kernels.length ? time(us) : "",
          value ? valueText(value) : "", shown(operation.placement.reason),
        ] };
      });
      return table("Operations", [["#", true], ["operation", false], ["device", false], ["time", true], ["result", false], ["reason", false]], rows);
    }

    return { content, operationTable, device };
  }

  return { create };
})();
