"use strict";
// Shows what the service does. All text of drivers and models becomes text nodes.
(() => {
  const POLL_MS = 1000, MOST_PAUSE_MS = 30000;
  const PARTS = [["queue", "waiting in the queue"], ["input", "moving inputs"], ["infer", "computing"], ["output", "moving outputs"], ["rest", "in the front end"]];
  const STATES = { READY: ["good", "●"], STARTING: ["warn", "◐"], DRAINING: ["warn", "◑"], BACKOFF: ["warn", "◌"], QUARANTINED: ["bad", "✕"], STOPPED: ["", "○"] };
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  const SVG = "http://www.w3.org/2000/svg";

  const shown = text => String(text).replace(HIDDEN, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const number = (value, digits = 0) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits }));
  const ms = value => (value === null || value === undefined ? "–" : value === 0 ? "0 ms" : value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : value < 0.1 ? `${(value * 1000).toPrecision(2)} µs` : `${value.toPrecision(3)} ms`);
  const bytes = value => (value === null || value === undefined ? "–" : value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB` : `${number(value / 2 ** 20)} MiB`);

  function fill(made, properties, children) {
    for (const [key, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter(each => each !== null && each !== undefined && each !== false));
    return made;
  }
  const make = (name, properties, ...children) => fill(document.createElement(name), properties, children);
  const svg = (name, properties, ...children) => fill(document.createElementNS(SVG, name), properties, children);

  const summary = make("p", {}), status = make("p", { class: "state", role: "status" }, "connecting");
  const drivers = make("div", { class: "cards", id: "drivers" }), models = make("div", { class: "cards", id: "models" });
  const note = make("p", { class: "quiet" });
  const main = make("main", {}, make("h2", {}, "Models"), models, make("h2", {}, "Drivers"), note, drivers);
  const dialog = make("dialog", { "aria-labelledby": "dialog-title" });
  document.body.append(make("header", {}, make("h1", {}, "neurald"), summary, status), main, dialog);

  // Long names break between their words.
  const named = text => shown(text).split(/(?<=[_./-])/).flatMap(word => [word, make("wbr", {})]);
  const versioned = model => `${shown(model.name)}${model.version ? `, version ${shown(model.version)}` : ""}`;
  const badge = (kind, sign, text) => make("span", { class: `badge ${kind}` }, make("span", { "aria-hidden": "true" }, sign), text);
  const facts = entries => make("dl", {}, entries.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const bar = share => svg("svg", { viewBox: "0 0 100 5", height: 5, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 5 }), svg("rect", { class: "fill", width: 100 * Math.max(0, Math.min(1, share)), height: 5 }));

  // Cards stay in place, so that neither focus nor what is open is lost; their parts are replaced.
  function cards(parent, entries, keyOf, nameOf, draw) {
    const known = new Map([...parent.children].map(each => [each.dataset.key, each]));
    entries.forEach((entry, place) => {
      const key = keyOf(entry);
      const card = known.get(key) || make("article", { class: "card", "data-key": key, "aria-label": nameOf(entry) });
      known.delete(key);
      draw(card, entry);
      if (parent.children[place] !== card) parent.insertBefore(card, parent.children[place] || null);
    });
    for (const left of known.values()) left.remove();
  }

  function part(card, name, content, redraws = true) {
    let place = card.querySelector(`[data-part="${name}"]`);
    if (!place) card.append(place = make("div", { "data-part": name }));
    else if (!redraws) return;
    place.replaceChildren(...[content].flat(Infinity).filter(Boolean));
  }

  let before = null;

  function rate(key, kind, field, now) {
    const old = before && before[kind].find(each => each[key[0]] === key[1] && (key[2] === undefined || each.version === key[2]));
    const elapsed_s = before ? (now.time_ms - before.time_ms) / 1000 : 0;
    const entry = now[kind].find(each => each[key[0]] === key[1] && (key[2] === undefined || each.version === key[2]));
    if (!old || elapsed_s <= 0 || entry[field] === null || entry[field] === undefined || old[field] === null || old[field] === undefined) return null;
    return Math.max(0, (entry[field] - old[field]) / elapsed_s);
  }

  function drawDriver(card, driver, state) {
    const [kind, sign] = STATES[driver.state] || ["", "○"];
    const busy = rate(["driver", driver.driver], "drivers", "busy_s", state);
    const missing = driver.sandbox !== "off" && driver.sandbox_missing.length ? ` without ${driver.sandbox_missing.map(shown).join(", ")}` : "";
    part(card, "all", [
      make("div", { class: "title" }, make("h3", {}, named(driver.driver)), badge(kind, sign, driver.state.toLowerCase())),
      driver.reason ? make("p", { class: kind === "good" ? "quiet" : "reason" }, shown(driver.reason)) : null,
      busy === null ? null : make("div", { class: "use" }, make("span", {}, make("span", {}, "device in use"), `${Math.round(100 * Math.min(1, busy))} %`), bar(busy)),
      facts([["clients", number(driver.sessions)], ["waiting", number(driver.waiting)], ["runs", number(driver.executions)], ["cores", number(driver.cores, 2)],
        ["memory", bytes(driver.memory_bytes)], ["process", driver.process === null ? "–" : String(driver.process)], ["starts", number(driver.starts)], ["deaths", number(driver.deaths)]]),
      driver.sandbox ? make("p", { class: "quiet" }, `sandbox: ${shown(driver.sandbox)}${missing}`) : null,
    ]);
  }

  function spark(history) {
    if (history.length < 2) return null;
    const ordered = [...history].sort((a, b) => a - b), most = ordered[ordered.length - 1], step = 300 / (history.length - 1);
    // A request that waited for the model to load would leave all others on one line.
    const top = Math.min(most, 4 * ordered[Math.ceil(0.9 * ordered.length) - 1]) || 1, beyond = history.filter(value => value > top).length;
    const points = history.map((value, n) => `${(n * step).toFixed(1)} ${(42 - 40 * Math.min(1, value / top)).toFixed(1)}`).join("L");
    const words = `last ${history.length} requests, 0 to ${ms(top)}${beyond ? `; ${beyond} took up to ${ms(most)}` : ""}`;
    return make("figure", { class: "spark" },
      svg("svg", { viewBox: "0 0 300 44", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("path", { class: "area", d: `M0 44L${points}L300 44z` }), svg("path", { d: `M${points}` })),
      make("figcaption", {}, words));
  }

  // The parts of a request in ms, one after the other.
  function partsOf(request) {
    const total = request.total_ns / 1e6;
    const found = PARTS.slice(0, 4).map(([name, text]) => ({ name, text, ms: request[`${name}_ns`] / 1e6 }));
    const left = Math.max(0, total - found.reduce((sum, each) => sum + each.ms, 0));
    found.push({ name: "rest", text: request.failed ? "until it failed" : PARTS[4][1], ms: left });
    let start = 0;
    for (const each of found) { each.start = start; start += each.ms; }
    return { parts: found, total: Math.max(start, 1e-9) };
  }

  function strip(request) {
    const { parts, total } = partsOf(request);
    return svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      parts.map(each => svg("rect", { class: each.name, x: 100 * each.start / total, width: 100 * each.ms / total, height: 8 })));
  }

  function drawModel(card, model, state) {
    const served = model.requests !== undefined;
    const speed = served ? rate(["name", model.name, model.version], "models", "requests", state) : null;
    part(card, "title", [
      make("div", { class: "title" }, make("h3", {}, named(model.name), model.version ? make("span", { class: "quiet" }, ` version ${shown(model.version)}`) : null),
        model.is_ready ? badge("good", "●", "ready") : badge("bad", "✕", "not ready")),
      model.reason ? make("p", { class: "reason" }, shown(model.reason)) : null,
      served ? make("p", { class: "quiet" }, "on ", [...new Set(model.devices)].map(shown).join(", ") || "no device", [...new Set(model.drivers)].length ? ` · driver ${[...new Set(model.drivers)].map(shown).join(", ")}` : "") : null,
      served ? facts([["requests", number(model.requests)], ["per second", number(speed, 1)], ["median", ms(model.latency_ms && model.latency_ms.p50)], ["99 %", ms(model.latency_ms && model.latency_ms.p99)],
        ["waiting", number(model.waiting)], ["running", number(model.running)], ["failed", number(model.failures)], ["refused", number(model.refused)]]) : null,
      served ? spark(model.history_ms) : null,
    ]);
    if (!served) return;
    part(card, "actions", make("div", { class: "actions" },
      make("a", { class: "button", href: `models/${encodeURIComponent(model.name)}/versions/${encodeURIComponent(model.version)}/graph`, target: "_blank", rel: "noopener", "aria-label": `Explained graph of ${versioned(model)}` }, "Explained graph"),
      make("button", { type: "button", "aria-expanded": "false", "aria-label": `Slow requests of ${versioned(model)}`, onclick: event => {
        const list = card.querySelector("[data-part=slow]");
        list.hidden = !list.hidden;
        event.target.setAttribute("aria-expanded", String(!list.hidden));
      } }, "Slow requests")), false);
    const isNew = !card.querySelector("[data-part=slow]");
    // While someone uses the list, it stays as it is.
    const isUsed = !isNew && card.querySelector("[data-part=slow]").contains(document.activeElement);
    part(card, "slow", model.slowest.length ? make("ul", { class: "slow" }, model.slowest.map(request => make("li", {},
      make("button", { type: "button", onclick: () => openTimeline(model, request) },
        make("div", { class: "row" }, make("span", {}, new Date(request.ended_ms).toLocaleTimeString(), request.failed ? " failed" : ""), make("b", {}, ms(request.total_ns / 1e6))),
        strip(request))))) : make("p", { class: "quiet" }, "no requests yet"), !isUsed);
    if (isNew) card.querySelector("[data-part=slow]").hidden = true;
  }

  function openTimeline(model, request) {
    const { parts, total } = partsOf(request);
    dialog.replaceChildren(
      make("h2", { id: "dialog-title" }, `A request of ${versioned(model)}`),
      make("p", { class: "quiet" }, `${new Date(request.ended_ms).toLocaleString()}, ${ms(total)} in all, ${request.rows} in its batch${request.failed ? ", failed" : ""}`),
      ...(request.trace_id ? [make("p", { class: "quiet" }, "trace ", make("code", {}, request.trace_id))] : []),
      make("table", { "aria-labelledby": "dialog-title" }, make("thead", {}, make("tr", {},
        make("th", { scope: "col" }, "part"), make("th", { scope: "col" }, `0 to ${ms(total)}`), make("th", { scope: "col", class: "number" }, "time"))),
        make("tbody", {}, parts.map(each => make("tr", {}, make("th", { scope: "row" }, each.text),
          make("td", {}, svg("svg", { class: "lane", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
            svg("rect", { class: each.name, x: Math.min(99.6, 100 * each.start / total), width: Math.max(0.4, 100 * each.ms / total), height: 14 }))),
          make("td", { class: "number" }, ms(each.ms)))))),
      make("div", { class: "actions" }, make("button", { type: "button", onclick: () => download(model, parts, request) }, "Download for Perfetto"),
        make("button", { type: "button", onclick: () => dialog.close() }, "Close")));
    dialog.showModal();
  }

  function trace(model, parts, request) {
    const begin_us = request.ended_ms * 1000 - request.total_ns / 1000;
    const event = (name, start_ms, length_ms) => ({ ph: "X", pid: 1, tid: 1, cat: "request", name, ts: begin_us + start_ms * 1000, dur: length_ms * 1000 });
    return { displayTimeUnit: "ms", traceEvents: [
      { ph: "M", pid: 1, name: "process_name", args: { name: `model ${model.name}` } },
      { ...event("request", 0, request.total_ns / 1e6), args: request.trace_id ? { trace: request.trace_id } : {} }, ...parts.filter(each => each.ms > 0).map(each => event(each.text, each.start, each.ms))] };
  }

  function download(model, parts, request) {
    const address = URL.createObjectURL(new Blob([JSON.stringify(trace(model, parts, request))], { type: "application/json" }));
    make("a", { href: address, download: "request.perfetto.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  function draw(state) {
    const waiting = state.models.reduce((sum, each) => sum + (each.waiting || 0), 0);
    summary.textContent = `${state.models.filter(each => each.is_ready).length} of ${state.models.length} models ready · ${number(waiting)} requests wait · ` +
      `${number(state.connections)} HTTP clients · ${bytes(state.request_bytes)} of requests`;
    cards(models, state.models, each => `${each.name} ${each.version}`, versioned, (card, model) => drawModel(card, model, state));
    if (!state.models.length) models.replaceChildren(make("p", { class: "quiet" }, "No models are served."));
    note.textContent = state.drivers_problem ? shown(state.drivers_problem) : state.drivers.length ? "" : "No drivers are supervised.";
    cards(drivers, state.drivers, each => each.driver, each => shown(each.driver), (card, driver) => drawDriver(card, driver, state));
    before = state;
  }

  function askToken(refused) {
    const field = make("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
    const form = make("form", { class: "card login", onsubmit: async event => {
      event.preventDefault();
      const answer = await fetch("session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token: field.value }) });
      form.remove();
      main.hidden = false;
      if (answer.ok) poll(); else askToken(true);
    } }, make("h2", {}, "This service needs its token"), make("label", { for: "token" }, refused ? "That was not the token. Token:" : "Token:"), field, make("button", { type: "submit" }, "Show"));
    main.hidden = true;
    status.textContent = "";
    document.body.append(form);
    field.focus();
  }

  let pause_ms = POLL_MS;

  async function poll() {
    if (document.hidden) return;
    try {
      const answer = await fetch("state", { signal: AbortSignal.timeout(15000) });
      if (answer.status === 401) return askToken(false);
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      draw(await answer.json());
      pause_ms = POLL_MS;
      status.className = "state";
      status.textContent = "live";
    } catch (error) {
      pause_ms = Math.min(MOST_PAUSE_MS, pause_ms * 2);
      status.className = "state late";
      status.textContent = `no answer; next try in ${Math.round(pause_ms / 1000)} s`;
    }
    document.documentElement.dataset.ready = "yes";
    clearTimeout(poll.timer);
    poll.timer = setTimeout(poll, pause_ms);
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden && main.hidden === false) poll(); });
  poll();
})();
