// What the mouse and the keys do.

const KEYS = [
  ["W S", "zoom in and out"], ["A D", "pan"], ["wheel", "zoom; sideways or with shift: pan; with alt: scroll the tracks"],
  ["drag", "pan"], ["shift + drag, drag on the ruler", "select a range and sum what it covers"],
  ["double click", "zoom to a slice"], ["← → ↑ ↓", "walk from slice to slice, out and in"], ["Enter", "select the slice's region"],
  ["↑ ↓ in a list", "from row to row; Tab goes to the next list"], ["F", "zoom to the selected slice or range"], ["0", "everything"], ["/", "search; Enter and shift+Enter: next and previous"], ["Esc", "clear"],
];

function listenTimeline() {
  const canvas = $("canvas"), box = $("scroller");
  let held = null;
  canvas.addEventListener("wheel", (event) => {
    if (event.altKey) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 900);
    else zoom(Math.exp(clamp(event.deltaY, -240, 240) / 420), timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    showTip(null);
    canvas.setPointerCapture(event.pointerId);
    const ranging = event.shiftKey || event.offsetY < RULER;
    held = { x: event.offsetX, y: event.clientY, from: view.from, to: view.to, scroll: box.scrollTop, ranging, moved: false };
    if (ranging) { range.from = range.to = timeAt(Math.max(event.offsetX, LABELS)); }
    canvas.classList.add(ranging ? "range" : "held");
    box.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return hover(event);
    if (Math.abs(event.offsetX - held.x) + Math.abs(event.clientY - held.y) > 3) held.moved = true;
    if (held.ranging) {
      range.to = timeAt(clamp(event.offsetX, LABELS, box.clientWidth));
      redraw();
    } else if (held.moved) {
      showTip(null);
      const shift = ((held.x - event.offsetX) / plotWidth()) * (held.to - held.from);
      box.scrollTop = held.scroll + held.y - event.clientY;
      show(held.from + shift, held.to + shift);
    }
  });
  const release = (event) => {
    if (!held) return;
    canvas.classList.remove("held", "range");
    if (held.ranging) {
      if (!held.moved) range.from = range.to = null;
      drawDetails();
    } else if (!held.moved) pick(sliceAt(event.offsetX, event.offsetY));
    held = null;
    redraw();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => !held && showTip(null));
  canvas.addEventListener("dblclick", (event) => zoomTo(sliceAt(event.offsetX, event.offsetY)));
  box.addEventListener("scroll", redraw);
  box.addEventListener("keydown", walk);
  listenOverview();
}

function listenOverview() {
  const bar = $("overview");
  const go = (event) => {
    if (event.buttons !== 1) return;
    if (view.low !== 0 || view.high !== data.timeline.length_ns) {
      [view.low, view.high] = [0, data.timeline.length_ns];
      $("launch").value = "all";
      placeTracks();
    }
    const at = (event.offsetX / bar.clientWidth) * data.timeline.length_ns, half = (view.to - view.from) / 2;
    show(at - half, at + half);
  };
  bar.addEventListener("pointerdown", go);
  bar.addEventListener("pointermove", go);
}

function hover(event) {
  const i = sliceAt(event.offsetX, event.offsetY);
  if (i < 0) return showTip(null);
  showTip(event, [el("strong", {}, nameOf(i)), ...wordsAbout(i)]);
}

function wordsAbout(i) {
  const region = regionOf.get(t.region[i]), row = rowOf.get(t.region[i]);
  const many = t.count && t.count[i] > 1;
  const said = [many ? `${duration(t.covered[i])} of work within ${duration(t.length[i])}` : duration(t.length[i])];
  if (many) said.push(`${count(t.count[i])} short intervals, drawn as one; ${region ? region.name : "?"} has the longest`);
  else if (row && row.p50_ns) said.push(`${((t.length[i] * shareOfWork(i)) / row.p50_ns).toFixed(2)} times its median`);
  const where = [`launch ${t.launch[i]}`, `program ${t.program[i]}`];
  if (t.iteration[i] >= 0) where.push(`iteration ${t.iteration[i]}`);
  said.push(where.join(", "), `starts at ${duration(t.start[i] - view.low)}`);
  if (region && region.source) said.push(region.source);
  if (t.weight && t.weight[i] !== 1) said.push(`recorded once, stands for ${t.weight[i].toFixed(1)} executions`);
  if (t.taken && t.taken[i] > 0) said.push(`of it ${duration(t.taken[i])} interrupted by the operating system`);
  if (t.value && !Number.isNaN(t.value[i]) && t.kind[i] > MARK) said.push(`value ${t.value[i]}`);
  return said;
}

function pick(i) {
  focus = i;
  if (i < 0) return clearSelection();
  selectRegion(t.region[i], "timeline");
  $("live").textContent = [nameOf(i), ...wordsAbout(i)].join(", ");
}

function zoomTo(i) {
  if (i < 0) return;
  focus = i;
  const slack = Math.max(t.length[i] * 0.15, 2);
  show(t.start[i] - slack, t.start[i] + t.length[i] + slack);
}

// Left and right: the neighbours in the row; up and down: the slice around, the first one inside.
function walk(event) {
  const keys = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: "out", ArrowDown: "in" };
  if (!(event.key in keys) || event.altKey || event.ctrlKey) {
    if (event.key === "Enter" && focus >= 0) pick(focus);
    return;
  }
  event.preventDefault();
  const step = keys[event.key];
  if (focus < 0) focus = firstAfter(t, t.offsets[0], t.offsets[1], view.from);
  else if (typeof step === "number") {
    const place = placeOf(focus), next = focus + step;
    if (next >= t.offsets[place] && next < t.offsets[place + 1]) focus = next;
  } else {
    const place = placeOf(focus) + (step === "in" ? 1 : -1), track = data.tracks[trackOf(placeOf(focus))];
    if (place >= track.first && place < track.first + track.rows) {
      const middle = step === "in" ? t.start[focus] : t.start[focus] + t.length[focus] / 2;
      const next = firstAfter(t, t.offsets[place], t.offsets[place + 1], middle);
      if (next < t.offsets[place + 1] && t.start[next] < t.start[focus] + t.length[focus]) focus = next;
    }
  }
  if (t.start[focus] < view.from || t.start[focus] > view.to) show(t.start[focus] - (view.to - view.from) / 2, t.start[focus] + (view.to - view.from) / 2);
  $("live").textContent = [nameOf(focus), ...wordsAbout(focus)].join(", ");
  redraw();
}

function listenKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.2), d: () => pan(0.2), 0: () => show(view.low, view.high),
      f: () => (range.from !== null ? show(Math.min(range.from, range.to), Math.max(range.from, range.to)) : zoomTo(focus)),
      "/": () => { event.preventDefault(); $("search").focus(); $("search").select(); }, "?": () => $("keys").showModal(),
      Escape: clearAll, n: () => nextHit(1), N: () => nextHit(-1),
    }[event.key.length === 1 && event.key !== "N" ? event.key.toLowerCase() : event.key];
    if (act) act();
  });
}

function clearAll() {
  range.from = range.to = null;
  focus = -1;
  $("search").value = "";
  search("");
}

// -- search: a part of a name, or "program 12", "iteration 3", "launch 2" --------------------------------

const hits = { test: null, at: -1 };

function search(text) {
  const words = text.trim().toLowerCase();
  const field = words.match(/^(program|iteration|launch)\s*[:#]?\s*(\d+)$/);
  const found = words && !field ? data.regions.filter((region) => nameMatches(region, words)).map((region) => region.id) : [];
  searched.hit = field ? (i) => t[field[1]][i] === Number(field[2]) : null;
  const wanted = new Set(found);
  hits.test = field ? searched.hit : wanted.size ? (i) => wanted.has(t.region[i]) : null;
  hits.at = -1;
  if (field || !words || !found.length) clearSelection();
  else selectRegions(found, "search");
  $("hits").textContent = !words ? "" : hits.test ? `${count(countHits())} found` : "nothing";
}

function nameMatches(region, words) {
  return region.name.toLowerCase().includes(words) || region.kind.toLowerCase() === words;
}

function countHits() {
  let n = 0;
  for (let i = 0; i < t.start.length; i++) if (hits.test(i)) n++;
  return n;
}

// The next slice that matches, in the order of time.
function nextHit(step) {
  if (!hits.test) return;
  const from = hits.at >= 0 ? t.start[hits.at] : step > 0 ? view.from - 1 : view.to;
  const before = (a, i, b, j) => (step > 0 ? a < b || (a === b && i < j) : a > b || (a === b && i > j));
  let best = -1;
  for (let i = 0; i < t.start.length; i++) {
    if (!hits.test(i) || t.start[i] < view.low || t.start[i] > view.high) continue;
    if (before(from, hits.at, t.start[i], i) && (best < 0 || before(t.start[i], i, t.start[best], best))) best = i;
  }
  if (best < 0) { hits.at = -1; return; }
  hits.at = focus = best;
  const width = clamp(t.length[best] * 12, 1, view.to - view.from);
  const middle = t.start[best] + t.length[best] / 2;
  show(middle - width / 2, middle + width / 2);
}
