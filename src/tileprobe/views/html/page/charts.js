// How the time of the selected region is distributed: over executions, iterations and the grid. Small pictures with a
// scale, each of which says what it shows.

function drawDetails() {
  const region = regionOf.get(selected.detail);
  const parts = [...rangeSums()];
  if (region) {
    const row = rowOf.get(region.id);
    const found = kernelOf.get(region.kernel).distributions[region.id];
    parts.push(el("h2", {}, swatch(region.id), el("span", {}, region.name)), el("dl", { class: "pairs" }, figuresOf(region, row)));
    if (found) parts.push(...histogram(found.histogram, region), ...overIterations(found.iterations, region), ...overGrid(found.programs, region));
    else if (row) parts.push(el("p", { class: "dim" }, "Distributions are kept for the longest regions of a kernel."));
    parts.push(...rooflineOf(region));
  }
  const below = el("button", { type: "button", id: "below", hidden: true, onclick: () => $("details").scrollBy({ top: $("details").clientHeight - 60 }) }, "▾ more below");
  $("details").replaceChildren(el("div", { class: "parts" }, grouped(parts)), below);
  drawCharts();
  sayBelow();
}

function drawCharts() {
  for (const canvas of $("details").querySelectorAll("canvas")) canvas.draw();
}

// A picture stays with its title where the details are set in two columns.
function grouped(parts) {
  const groups = [];
  for (const part of parts) {
    if (part.tagName === "H3" || !groups.length) groups.push([]);
    groups[groups.length - 1].push(part);
  }
  return groups.map((group) => el("div", {}, group));
}

function sayBelow() {
  const box = $("details"), below = $("below");
  if (below) below.hidden = box.scrollHeight - box.clientHeight - box.scrollTop < 28;
}

function figuresOf(region, row) {
  const pairs = region.source ? [["source", region.source]] : [];
  if (row) {
    const about = roughly(row);
    pairs.push(["share", percent(row.share)], ["total", marked(about, duration(row.total_ns))], ["self", marked(about, duration(row.self_ns))], ["executions", marked(about, count(row.count))], ["mean", duration(row.mean_ns)], ["p50 · p95", `${duration(row.p50_ns)} · ${duration(row.p95_ns)}`]);
    if (row.moved) pairs.push(["moved", `${percent(row.moved)} of its instructions, out of its records, by the compiler`]);
    if (row.recorded < 0.9995) pairs.push(["recorded", `${percent(row.recorded)}: the rest is estimated`]);
  }
  return pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
}

// A canvas that is drawn once it has its width.
function chart(height, label, draw) {
  const canvas = el("canvas", { role: "img", "aria-label": plain(label), style: { height: `${height}px` } });
  canvas.draw = () => {
    const ratio = window.devicePixelRatio || 1;
    const width = onPaper ? 318 : canvas.clientWidth || 280; // on paper as the style sheet has it
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `10.5px ${css("--sans")}`;
    draw(pen, width, height);
  };
  return canvas;
}

function label(pen, text, x, y, align = "left") {
  pen.fillStyle = css("--dim");
  pen.textAlign = align;
  pen.fillText(text, x, y);
  pen.textAlign = "left";
}

function histogram(found, region) {
  if (!found) return [];
  const { counts } = found, p50 = rowOf.get(region.id)?.p50_ns ?? found.quantiles[1]; // the figure of the tree
  const said = `time of an execution${found.log ? ", logarithmic" : ""}`;
  const beyond = found.beyond ? ` · ${count(found.beyond)} longer, up to ${duration(found.largest)}` : "";
  const place = (ns) => (found.log ? Math.log(ns / found.from) / Math.log(found.to / found.from) : (ns - found.from) / (found.to - found.from));
  const canvas = chart(88, `histogram of ${region.name}: p50 ${duration(p50)}`, (pen, width, height) => {
    const base = height - 14, room = base - 16, most = Math.max(...counts), step = width / counts.length;
    pen.fillStyle = rgb(colour(region.id));
    counts.forEach((n, i) => n && pen.fillRect(i * step, base - Math.max(1.5, (n / most) * room), Math.max(1, step - 1), Math.max(1.5, (n / most) * room)));
    pen.fillStyle = css("--text");
    const x = clamp(place(p50), 0, 1) * width;
    pen.fillRect(x, 2, 1.25, base - 2);
    label(pen, `p50 ${duration(p50)}`, x > width / 2 ? x - 4 : x + 5, 11, x > width / 2 ? "right" : "left");
    label(pen, duration(found.from), 0, height - 2);
    label(pen, duration(found.to), width, height - 2, "right");
  });
  return [el("h3", {}, said + beyond), canvas];
}

function overIterations(found, region) {
  if (!found || found.at.length < 2) return [];
  const { at, p5, p50, p95, width: wide } = found;
  const last = at[at.length - 1] + wide - 1;
  const canvas = chart(84, `time of ${region.name} over iterations 0 to ${last}`, (pen, width, height) => {
    const base = height - 14;
    const sorted = [...p95].sort((a, b) => a - b);
    const top = Math.max(...p50, sorted[Math.floor(0.95 * (sorted.length - 1))]) * 1.08 || 1;
    const left = Math.max(46, pen.measureText(duration(top)).width + 6);
    const x = (n) => left + ((width - left - 4) * at[n]) / Math.max(at[at.length - 1], 1);
    const y = (ns) => base - (base - 4) * Math.min(ns / top, 1);
    pen.fillStyle = rgb(mix(colour(region.id), rgbOf("--panel"), 0.65));
    pen.beginPath();
    at.forEach((_, n) => pen.lineTo(x(n), y(p95[n])));
    for (let n = at.length - 1; n >= 0; n--) pen.lineTo(x(n), y(p5[n]));
    pen.fill();
    pen.strokeStyle = rgb(colour(region.id));
    pen.lineWidth = 1.75;
    pen.beginPath();
    at.forEach((_, n) => pen.lineTo(x(n), y(p50[n])));
    pen.stroke();
    pen.fillStyle = css("--line");
    pen.fillRect(left, base, width - left, 1);
    label(pen, duration(top), left - 5, 11, "right");
    label(pen, "0", left - 5, base, "right");
    label(pen, "0", left, height - 2);
    label(pen, String(last), width, height - 2, "right");
  });
  const binned = wide > 1 ? `, ${wide} at a time` : "";
  return [el("h3", {}, `over iterations: median, p5 to p95${binned}`), canvas];
}

function overGrid(found, region) {
  if (!found) return [];
  const { shape, ns, width: wide } = found;
  const known = ns.filter((value) => value !== null).sort((a, b) => a - b);
  const low = known[Math.floor(0.02 * (known.length - 1))], high = known[Math.ceil(0.98 * (known.length - 1))];
  const two = shape.length > 1 && wide === 1;
  const across = two ? shape[0] : Math.min(ns.length, Math.max(16, Math.ceil(Math.sqrt(ns.length * 3))));
  const down = Math.ceil(ns.length / across);
  const cell = (width) => Math.max(1, Math.min(width / across, 18, 150 / down));
  const height = Math.ceil(cell(290) * down) + 20;
  const canvas = chart(height, `time of ${region.name} in each program of the grid, ${duration(low)} to ${duration(high)}`, (pen, width) => {
    const size = cell(width);
    ns.forEach((value, n) => {
      const x = (n % across) * size, y = Math.floor(n / across) * size;
      pen.fillStyle = value === null ? css("--soft") : rgb(heat(high > low ? (value - low) / (high - low) : 0.5));
      pen.fillRect(x, y, Math.max(size - (size > 4 ? 1 : 0), 0.6), Math.max(size - (size > 4 ? 1 : 0), 0.6));
    });
    const scale = height - 15;
    const left = Math.max(50, pen.measureText(duration(low)).width + 4);
    for (let i = 0; i < 60; i++) { pen.fillStyle = rgb(heat(i / 59)); pen.fillRect(left + i, scale + 4, 1.2, 8); }
    label(pen, duration(low), left - 4, scale + 12, "right");
    label(pen, duration(high), left + 64, scale + 12);
  });
  canvas.addEventListener("mousemove", (event) => {
    const size = cell(canvas.clientWidth);
    const column = Math.floor(event.offsetX / size), n = Math.floor(event.offsetY / size) * across + column;
    const value = column < across ? ns[n] : undefined;
    const which = wide > 1 ? `programs ${count(n * wide)} to ${count(n * wide + wide - 1)}` : `program ${programName(n, shape)}`;
    showTip(event, value === undefined ? null : [el("strong", {}, which), value === null ? "not recorded" : `${duration(value)} in ${region.name}`]);
  });
  canvas.addEventListener("mouseleave", () => showTip(null));
  const missing = ns.length - known.length;
  return [el("h3", {}, `over the grid of ${shape.join(" x ")}${wide > 1 ? `, ${wide} programs a cell` : ""}${missing ? `, ${count(missing)} not recorded` : ""}`), canvas];
}

function programName(n, shape) {
  if (shape.length < 2) return count(n);
  const at = [];
  for (const extent of shape) { at.push(n % extent); n = Math.floor(n / extent); }
  return `(${at.join(", ")})`;
}

function showTip(event, children) {
  const tip = $("tip");
  tip.hidden = !children;
  if (!children) return;
  tip.replaceChildren(...children.map((child) => (child instanceof Node ? child : el("div", {}, child))));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(event.clientX + 14, 4, window.innerWidth - box.width - 8)}px`;
  tip.style.top = `${event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 16}px`;
}
