"use strict";
// Formats what the page shows. Text of models and drivers goes through `shown` and into text nodes.
const Text = (() => {
  // Control characters, marks of direction, and halves of surrogate pairs would be invisible or change
  // the order of what is around them.
  const HIDDEN = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]|[\\ud800-\\udbff](?![\\udc00-\\udfff])|" +
    "(?<![\\ud800-\\udbff])[\\udc00-\\udfff]", "g");

  function shown(text) {
    return String(text).replace(HIDDEN, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  }

  function clipped(text, length) {
    const found = Array.from(shown(text));
    return found.length > length ? `${found.slice(0, length - 1).join("")}…` : found.join("");
  }

  function shape(dimensions) {
    if (dimensions === null) return "any rank";
    return dimensions.length ? dimensions.map(each => each || "?").join("×") : "scalar";
  }

  // Types of elements by the names that programs give them.
  const ELEMENTS = new Map(Object.entries({
    quant8_asymm: "uint8", quant8_asymm_signed: "int8", quant8_symm: "int8", quant8_symm_per_channel: "int8",
    quant16_asymm: "uint16", quant16_symm: "int16", bool8: "bool",
  }));

  function element(type) {
    const found = shown(type).replace(/^TENSOR_/, "").toLowerCase();
    return ELEMENTS.get(found) || found;
  }

  function time(us) {
    if (us === null || us === undefined) return "";
    if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
    if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
    return us >= 100 ? `${Math.round(us)} µs` : `${us.toPrecision(us < 10 ? 2 : 3)} µs`;
  }

  function bytes(count) {
    if (count === null || count === undefined) return "size unknown";
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    while (count >= 1024 && unit < 3) { count /= 1024; unit += 1; }
    return `${unit && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
  }

  function counted(count, noun) {
    return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  }

  // Creates an element. Strings among the children become text.
  function element_(name, properties, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter(each => each !== null && each !== undefined && each !== ""));
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function svg(name, properties, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (value !== undefined && value !== null) made.setAttribute(key, value);
    }
    made.append(...children.flat(Infinity).filter(each => each !== null && each !== undefined));
    return made;
  }

  return { shown, clipped, shape, element, time, bytes, counted, make: element_, svg };
})();
