// Two traces side by side: for each kernel its regions with both times, the change and the noise, then its lines. What
// changed is said in words and signs; colour only repeats it.

const data = JSON.parse(document.getElementById("data").textContent);
const [A, B] = data.names;
const SIGNS = { slower: "▲", faster: "▼", "within noise": "=", "too few launches": "?" };

const signed = (share) => `${share >= 0.0005 ? "+" : share <= -0.0005 ? "−" : ""}${Math.abs(100 * share).toFixed(1)} %`;
const LEAST = 0.05; // of the longest line: the longest bar is of a difference of at least that, so that nothing looks like much

function regionRow(row, most) {
  const bar = (ns, cls) => el("i", { class: cls, style: { width: `${(100 * ns) / most}%` } });
  const parts = [bar(row.a_ns, "a"), bar(row.b_ns, `b ${row.verdict.split(" ")[0]}`)];
  if (row.noise !== null) {
    const low = Math.max(row.a_ns * (1 - row.noise), 0), high = Math.min(row.a_ns * (1 + row.noise), most);
    parts.push(el("b", { title: `noise ±${(100 * row.noise).toFixed(1)} %`, style: { left: `${(100 * low) / most}%`, width: `${(100 * (high - low)) / most}%` } }));
  }
  const about = row.estimate ? "~" : "";
  const was = row.a_name !== row.name ? `in A: ${row.a_name}` : undefined;
  return el("tr", { class: row.verdict.split(" ")[0] },
    el("td", { title: was }, el("div", { class: "name", style: { paddingLeft: `${14 * row.depth}px` } }, el("span", {}, row.name))),
    el("td", { class: "pair" }, el("div", {}, parts)),
    el("td", { class: "num" }, marked(about, duration(row.a_ns))), el("td", { class: "num" }, marked(about, duration(row.b_ns))),
    el("td", { class: "num change" }, signed(row.change)),
    el("td", { class: "num dim" }, row.noise === null ? "" : `±${(100 * row.noise).toFixed(1)} %`),
    el("td", { class: "verdict" }, `${SIGNS[row.verdict] || ""} `, el("span", {}, row.verdict)));
}

const sideTime = (side) => (side && side.ns !== null ? duration(side.ns) : "");

function lineRow(line, most) {
  const both = line.a && line.b && line.a.ns !== null && line.b.ns !== null;
  const moved = both ? (line.b.ns - line.a.ns) / most : 0;
  const cls = line.a && line.b ? "" : line.a ? "gone" : "fresh";
  const bar = el("i", { class: moved > 0 ? "slower" : "faster", style: { width: `${Math.min(100, 100 * Math.abs(moved))}%` } });
  return el("div", { class: `row ${cls}` },
    el("span", { class: "t" }, sideTime(line.a)), el("span", { class: "t" }, sideTime(line.b)),
    el("span", { class: "h" }, Math.abs(moved) > 0.01 ? bar : ""),
    el("span", { class: "delta" }, both && Math.abs(moved) > 0.01 ? `${moved > 0 ? "+" : "−"}${duration(Math.abs(line.b.ns - line.a.ns))}` : ""),
    el("span", { class: "n" }, line.a ? String(line.a.n) : ""), el("span", { class: "n" }, line.b ? String(line.b.n) : ""),
    el("span", { class: "n" }, cls === "gone" ? "−" : cls === "fresh" ? "+" : ""),
    el("span", {}, line.pieces.map(([kind, text]) => (kind ? el("span", { class: kind === "n" ? "n_" : kind }, text) : text))));
}

function kernelPart(kernel) {
  const most = Math.max(...kernel.rows.flatMap((row) => [row.a_ns, row.b_ns]), 1e-9);
  const titles = ["region", "A above, B below; the line is A's noise", A, B, "change", "noise", ""];
  const head = el("tr", {}, titles.map((title, n) => el("th", { class: n < 2 ? "left" : "" }, title)));
  const table = el("table", { class: "tree compare" }, el("thead", {}, head), el("tbody", {}, kernel.rows.map((row) => regionRow(row, most))));
  const parts = [el("div", { class: "head" }, el("h2", {}, kernel.title), el("span", { class: "dim push" }, `${data.unit === "ns" ? "time" : "instructions"} in a program, ${kernel.figure} of the launches`)), table];
  const changed = kernel.lines.filter((line) => line.a && line.b && line.a.ns !== null && line.b.ns !== null).map((line) => Math.abs(line.b.ns - line.a.ns));
  if (kernel.lines.length) {
    parts.push(el("div", { class: "head" }, el("h2", {}, "by line"), el("span", { class: "dim push" }, "A, B, the difference, and the line in each")));
    const longest = Math.max(...kernel.lines.flatMap((line) => [sideTime(line.a).length, sideTime(line.b).length]));
    const times = kernel.lines.flatMap((line) => [line.a?.ns ?? 0, line.b?.ns ?? 0]);
    const widest = Math.max(...changed, LEAST * Math.max(...times), 1e-9);
    parts.push(el("div", { class: "body" }, timesWide(el("div", { class: "code lines" }, kernel.lines.map((line) => lineRow(line, widest))), longest)));
  }
  return el("section", { class: "pane", "aria-label": plain(kernel.title) }, parts);
}

function drawComparison() {
  $("title").textContent = plain(`A ${A}  ·  B ${B}`);
  const said = data.findings.map(({ text, level }) => el("li", { class: level }, text));
  $("summary").replaceChildren(el("ul", { class: "findings" }, said.length ? said : el("li", {}, "no kernel is in both traces")));
  $("kernels").replaceChildren(...data.kernels.map(kernelPart));
  document.documentElement.dataset.ready = "1";
}

const asked = matchMedia("(prefers-color-scheme: dark)");
setTheme(asked.matches ? "dark" : "light");
asked.addEventListener("change", () => setTheme(asked.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
drawComparison();
