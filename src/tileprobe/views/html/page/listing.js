// The source with the time of each line, and the IR it became. Lines of both know the places in the source they come
// from, so that a selection on one side lights up on the other.

let level = null; // of IR, by name

function drawSource() {
  const kernel = kernelOf.get(selected.kernel);
  const listings = kernel ? kernel.listings : [];
  $("code").hidden = !listings.length && data.source;
  if (!listings.length) {
    const why = data.source ? "" : "the source was left out of this report (--no-source)";
    $("code").replaceChildren(el("div", { class: "head" }, el("h2", {}, "Source")), el("div", { class: "remark" }, why));
    return;
  }
  const hottestLine = Math.max(...listings.flatMap((listing) => listing.lines.map((line) => line.share)), 1e-12);
  const blocks = listings.flatMap((listing, n) => [
    n ? el("h3", {}, `${listing.name} · ${listing.file}`) : null,
    ...listing.lines.map((line) => sourceRow(line, hottestLine)),
  ]);
  const estimated = listings.some((listing) => listing.lines.some((line) => line.estimate));
  const head = el("div", { class: "head" }, el("h2", {}, "Source"), el("span", { class: "dim" }, kernel.place),
    estimated ? el("span", { class: "dim push", title: "a stage fused from several lines is measured as one; its time is spread over them by what their operations cost" }, "~ estimated") : null);
  const longest = Math.max(...listings.flatMap((listing) => listing.lines.map((line) => lineTime(line).length)));
  $("code").replaceChildren(head, el("div", { class: "body" }, timesWide(oneStop(el("div", { class: "code" }, blocks.filter(Boolean))), longest)));
}

const lineTime = (line) => (line.ns === null ? "" : marked(line.estimate ? "~" : "", duration(line.ns)));

function sourceRow(line, hottestLine) {
  const timed = line.ns !== null;
  const tint = timed ? { background: `rgba(${css("--hot")}, ${(0.2 * line.share) / hottestLine})` } : {};
  const title = timed && line.called_ns > 0 ? `${duration(line.called_ns)} of it in functions that are called here` : undefined;
  return el("div", { class: timed ? "row live" : "row", "data-line": line.id, title, ...actions(() => selectLines([line.id], "source")), ...(timed ? {} : { tabindex: undefined }) },
    el("span", { class: "t" }, lineTime(line)),
    el("span", { class: "p" }, timed ? percent(line.share) : ""),
    el("span", { class: "h" }, timed ? el("i", { style: { width: `${(100 * line.share) / hottestLine}%` } }) : ""),
    el("span", { class: "n" }, String(line.n)),
    el("span", { style: tint }, line.pieces.map(([cls, text]) => (cls ? el("span", { class: cls === "n" ? "n_" : cls }, text) : text))));
}

function actions(pick) {
  const onkeydown = (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); }
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    let row = step && event.currentTarget[step];
    while (row && !row.hasAttribute("tabindex")) row = row[step];
    if (row) { event.preventDefault(); row.focus(); }
  };
  return { onclick: pick, onkeydown, tabindex: "-1" };
}

// One stop of the tab key for all rows of a list, the one that was last on; arrows go from row to row.
function oneStop(list) {
  const at = list.querySelector("[tabindex]");
  if (at) at.tabIndex = 0;
  list.addEventListener("focusin", ({ target }) => {
    for (const other of list.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    target.tabIndex = 0;
  });
  return list;
}

function drawLevels() {
  const kernel = kernelOf.get(selected.kernel);
  const levels = kernel ? kernel.ir : [];
  $("ir").hidden = !levels.length;
  $("panes").className = [$("code").hidden, $("ir").hidden].filter(Boolean).length === 2 ? "plain" : $("code").hidden || $("ir").hidden ? "two" : "";
  if (!levels.length) return;
  const shown = levels.find((one) => one.level === level) || levels.find((one) => one.level === "tile") || levels.find((one) => one.level === "ttgir") || levels[0];
  level = shown.level;
  const tabs = el("div", { class: "tabs", role: "tablist" }, levels.map((one) =>
    el("button", { type: "button", role: "tab", "aria-selected": String(one === shown), title: one.level, onclick: () => { level = one.level; drawLevels(); lightLines(); } }, one.title)));
  const rows = shown.lines.map((text, n) => irRow(text, n, shown.links[n]));
  $("ir").replaceChildren(el("div", { class: "head" }, el("h2", {}, "IR"), tabs), shown.note ? el("div", { class: "remark" }, shown.note) : "",
    el("div", { class: "body" }, oneStop(el("div", { class: rows.length > 4000 ? "code long" : "code" }, rows))));
}

const TOKENS = /("(?:[^"\\]|\\.)*")|((?:\/\/|;).*$)|(%[\w".]+|\$\w+)|(![\w.]+)|\b([a-z_]\w*(?:\.\w+)+)|\b(0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b/g;
const TOKEN_CLASSES = [null, "s", "c", "f", "d", "k", "n_"];

function irRow(text, n, links) {
  const live = links.length > 0;
  const pick = live ? actions(() => selectLines(links, "ir")) : {};
  return el("div", { class: live ? "row live" : "row", "data-links": links.join(" "), ...pick },
    el("span", { class: "n" }, String(n + 1)), el("span", {}, pieces(text.length > 400 ? `${text.slice(0, 400)} …` : text)));
}

function pieces(text) {
  const found = [];
  let done = 0;
  for (const match of text.matchAll(TOKENS)) {
    if (match.index > done) found.push(text.slice(done, match.index));
    const group = match.findIndex((part, n) => n > 0 && part !== undefined);
    found.push(el("span", { class: TOKEN_CLASSES[group] }, match[0]));
    done = match.index + match[0].length;
  }
  return [...found, text.slice(done)];
}

// A region's own line of IR is one made from exactly its lines; where there is none, all that share a line with it.
function lightLines() {
  for (const row of $("code").querySelectorAll("[data-line]")) row.classList.toggle("lit", selected.lines.has(Number(row.dataset.line)));
  const rows = [...$("ir").querySelectorAll("[data-links]")];
  const links = rows.map((row) => (row.dataset.links ? row.dataset.links.split(" ").map(Number) : []));
  const same = (found) => found.length === selected.lines.size && found.every((line) => selected.lines.has(line));
  const exact = selected.by !== "source" && links.some((found) => found.length && same(found));
  rows.forEach((row, n) => row.classList.toggle("lit", links[n].length > 0 && (exact ? same(links[n]) : links[n].some((line) => selected.lines.has(line)))));
  for (const [pane, name] of [[$("code"), "source"], [$("ir"), "ir"]]) {
    const lit = pane.querySelector(".row.lit");
    const box = pane.querySelector(".body");
    if (!lit || !box || selected.by === name) continue;
    const at = lit.offsetTop - box.offsetTop;
    if (at < box.scrollTop || at > box.scrollTop + box.clientHeight - 40) box.scrollTop = at - box.clientHeight / 3;
  }
}
