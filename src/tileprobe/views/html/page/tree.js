// The region tree: bars with the 95 % interval of the share, sortable by any column, estimates marked with a tilde.

const COLUMNS = [
  ["name", "region", ""], ["share", "share", ""], ["total_ns", "total", ""], ["self_ns", "self", "self"],
  ["count", "count", "count"], ["mean_ns", "mean", "mean"], ["p50_ns", "p50", "wide"], ["p95_ns", "p95", "wide"],
];
const MOVED = "the share of its instructions that the compiler put outside of its records";
const MANY = 60; // rows: of more than these the small ones are folded away
const sorting = { column: null, down: true, all: false };

function drawTree() {
  const kernel = kernelOf.get(selected.kernel);
  if (!kernel) return;
  const rows = ordered(kernel.tree);
  const small = rows.length > MANY && !sorting.all ? rows.filter((row) => row.share < 0.002 && row.depth > 0) : [];
  const shown = rows.filter((row) => !small.includes(row));
  const head = el("tr", {}, COLUMNS.map(([name, title, cls]) => el("th", { class: cls, "aria-sort": sort(name) },
    el("button", { type: "button", title: `sort by ${title}`, onclick: () => sortBy(name) }, title + mark(name)))));
  const body = oneStop(el("tbody", {}, shown.map(treeRow)));
  const table = el("table", { class: "tree" }, el("thead", {}, head), body);
  const more = small.length ? el("button", { type: "button", class: "more", onclick: () => { sorting.all = true; drawTree(); } }, `+ ${small.length} regions below 0.2 %`) : null;
  const estimated = kernel.tree.some(roughly);
  const title = el("div", { class: "head" }, el("h2", {}, "Where the time goes"),
    el("span", { class: "dim push" }, estimated ? "~ estimated from what was recorded" : "summed over programs and launches"));
  $("regions").replaceChildren(title, el("div", { class: "body", tabindex: "-1" }, table, more));
  fitTree();
  lightTree();
}

// Smaller at first, then without the columns that one misses least; the details of a region have them all.
const STEPS = ["tight", "no-wide", "no-mean", "no-count", "no-self"];
function fitTree() {
  const table = $("regions").querySelector("table");
  if (!table) return;
  table.classList.remove(...STEPS);
  for (const step of STEPS) if (table.scrollWidth > table.parentElement.clientWidth) table.classList.add(step);
}

// A figure that stands for more than was recorded is an estimate.
const roughly = (row) => (row.estimate || (row.recorded !== null && row.recorded < 0.9995) ? "~" : "");

const sort = (name) => (sorting.column === name ? (sorting.down ? "descending" : "ascending") : "none");
const mark = (name) => (sorting.column === name ? (sorting.down ? " ▾" : " ▴") : "");

function sortBy(name) {
  if (sorting.column === name && !sorting.down) Object.assign(sorting, { column: null, down: true });
  else if (sorting.column === name) sorting.down = false;
  else Object.assign(sorting, { column: name, down: name !== "name" });
  drawTree();
}

// In the order of the tree, or flat by a column.
function ordered(rows) {
  const { column, down } = sorting;
  if (!column) return rows;
  const key = (row) => (column === "name" ? row.name : row[column] ?? -1);
  return [...rows].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
}

function treeRow(row) {
  const about = roughly(row);
  const title = plain(row.source ? `${row.name} · ${row.source}` : row.name);
  const name = el("div", { class: "name", style: { paddingLeft: sorting.column ? "0" : `${14 * row.depth}px` } }, row.region === null ? null : swatch(row.region), el("span", { title }, row.name),
    row.moved ? el("span", { class: "dim moved", title: MOVED }, ` ${percent(row.moved)} moved`) : null);
  const cells = [
    el("td", {}, name),
    el("td", { class: "share" }, meter(row)),
    el("td", { class: "num", title: interval(row) }, marked(about, duration(row.total_ns))),
    el("td", { class: "num self" }, row.region === null ? "" : marked(about, duration(row.self_ns))),
    el("td", { class: "num count", title: recorded(row) }, marked(about, count(row.count))),
    el("td", { class: "num mean" }, duration(row.mean_ns)),
    el("td", { class: "num wide" }, duration(row.p50_ns)),
    el("td", { class: "num wide" }, duration(row.p95_ns)),
  ];
  const pick = () => row.region !== null && selectRegion(row.region, "tree");
  return el("tr", { "data-region": row.region, ...actions(pick) }, cells);
}

function meter(row) {
  const whole = row.share ? row.total_ns / row.share : 0;
  const colourful = row.region !== null && !RANGES.has(row.kind) ? { background: rgb(mix(colour(row.region), dark() ? [0, 0, 0] : [255, 255, 255], 0.25)) } : {};
  const parts = [el("i", { style: { width: `${100 * row.share}%`, ...colourful } })];
  if (row.low_ns !== null && whole && row.high_ns > row.low_ns) {
    const low = clamp(row.low_ns / whole, 0, 1), high = clamp(row.high_ns / whole, 0, 1);
    parts.push(el("b", { style: { left: `${100 * low}%`, width: `${100 * (high - low)}%` } }));
  }
  return el("div", { title: interval(row) }, el("div", { class: "meter" }, parts), el("span", {}, percent(row.share)));
}

function interval(row) {
  const parts = [];
  if (row.low_ns !== null && row.high_ns > row.low_ns) parts.push(`95 % interval of this run: ${duration(row.low_ns)} to ${duration(row.high_ns)}`);
  if (row.recorded !== null && row.recorded < 0.9995) parts.push(`${percent(row.recorded)} of it recorded`);
  if (row.interrupted) parts.push(`${count(row.interrupted)} executions were interrupted by the operating system`);
  return parts.join("; ");
}

const recorded = (row) => (row.recorded_count !== null && row.recorded_count !== row.count ? `${count(row.recorded_count)} recorded` : "");

function lightTree() {
  for (const row of $("regions").querySelectorAll("tbody tr")) {
    const lit = selected.regions.has(Number(row.dataset.region)) && row.dataset.region !== undefined;
    row.classList.toggle("lit", lit);
    row.setAttribute("aria-selected", String(lit));
  }
  const first = $("regions").querySelector("tr.lit");
  if (first && selected.by !== "tree") first.scrollIntoView({ block: "nearest" });
}
