// Numbers as people read them, and elements whose content is always text, never markup.

// Where no time is simulated, a nanosecond is an instruction.
const units = () => (data.unit === "instructions"
  ? [[1e9, "G instr"], [1e6, "M instr"], [1e3, "k instr"], [1, "instr"]]
  : [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);

function duration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "";
  if (Math.abs(ns) < 0.005) return "0";
  const [size, unit] = units().find(([s]) => Math.abs(ns) >= 0.9995 * s) || units()[3];
  const value = ns / size;
  const digits = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}

function percent(share) {
  if (share === null || share === undefined) return "";
  const value = 100 * share;
  return value >= 9.95 ? `${value.toFixed(0)} %` : value > 0 && value < 0.05 ? "<0.1 %" : `${value.toFixed(1)} %`;
}

// A figure that is an estimate has its mark; nothing is nothing.
const marked = (about, text) => (text === "0" || text === "" ? text : about + text);

const count = (number) => (number === null || number === undefined ? "" : Math.round(number).toLocaleString("en-US"));

// Control characters are shown as what they are, so that a name can neither hide nor reorder anything.
function plain(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// el("td", { class: "num", onclick: f }, "text", element, ...)
function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return node;
}

// A column of times as wide as the longest of them; letters are all of one width.
function timesWide(node, letters) {
  node.style.setProperty("--t", `${Math.max(letters + 1, 9)}ch`);
  return node;
}

const $ = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

const dark = () => document.documentElement.dataset.theme === "dark";

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  looked.clear();
}

// Values of the style sheet, looked up once a theme: drawing asks for them thousands of times.
const looked = new Map();
function css(name) {
  if (!looked.has(name)) looked.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return looked.get(name);
}
