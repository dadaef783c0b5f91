// The timeline: tracks with rows of nested slices, a ruler, an overview, and what mouse and keys do with them.

const RULER = 22, GAP = 5, CHOICES = 2000; // launches in the list of launches
let LABELS = 132; // room for the names of tracks, more where they are long
const view = { from: 0, to: 1, low: 0, high: 1 }; // what is shown, and how far one can go; ns from the first interval
const range = { from: null, to: null };
let t = null; // the columns
let focus = -1; // the slice that keys walk from
let frames = 0;
const slices = { screen: [], words: [] };

const tops = { of: [], whole: 0, rows: 0 }; // where tracks begin, and how many rows there are to show
const rowHeight = () => (tops.rows > 60 ? 13 : tops.rows > 24 ? 15 : 19);
const trackHeight = (track) => (track.there ? track.rows * rowHeight() + GAP : 0);
const plotWidth = () => Math.max(50, $("scroller").clientWidth - LABELS);
const PAPER = { width: 718, tallest: 880 }; // A4 between its margins, and most of its height
let onPaper = false; // there is no scrolling there, and its width is not the window's
const scrolled = () => (onPaper ? 0 : $("scroller").scrollTop);

let waiting = false;
function redraw() {
  if (waiting || !t) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawTimeline(); });
}

function drawTimeline() {
  const began = performance.now();
  const canvas = $("canvas"), box = $("scroller"), ratio = window.devicePixelRatio || 1;
  const width = onPaper ? PAPER.width : box.clientWidth, all = RULER + tops.whole + 8;
  const height = onPaper ? Math.min(all, PAPER.tallest) : box.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.style.marginBottom = `${-height}px`;
  }
  $("tall").style.height = `${all}px`;
  const pen = canvas.getContext("2d", { alpha: false });
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = css("--panel");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  paintTracks(pen, ratio, width, height);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawWords(pen);
  const x = (ns) => LABELS + ((ns - view.from) / (view.to - view.from)) * (width - LABELS);
  pen.save();
  pen.beginPath();
  pen.rect(LABELS, RULER, width - LABELS, height);
  pen.clip();
  const hidden = drawArcs(pen, t, view, x, (n) => (data.tracks[n].there ? RULER + tops.of[n] - scrolled() + rowHeight() * data.tracks[n].rows - 5 : null));
  pen.restore();
  drawFocus(pen, x, width);
  drawRuler(pen, x, width, height);
  drawOverview();
  $("said").textContent = $("said").title = saidAbout(hidden);
  frames++;
  document.documentElement.dataset.frame = String(frames);
  Object.assign(document.documentElement.dataset, { from: view.from, to: view.to });
  document.documentElement.dataset.drawn = (performance.now() - began).toFixed(1);
}

function paintTracks(pen, ratio, width, height) {
  const rows = rowHeight();
  const wide = Math.round((width - LABELS) * ratio), tall = Math.max(1, Math.round((rows - 1) * ratio));
  const scratch = { cover: new Float32Array(wide), best: new Float32Array(wide), tint: new Int32Array(wide), lit: new Float32Array(wide), back: pixel(rgbOf("--track")) };
  const line = new Int32Array(wide), odd = new Int32Array(wide);
  slices.words = [];
  slices.screen = [];
  let top = RULER - scrolled();
  data.tracks.forEach((track, n) => {
    if (track.there && top + trackHeight(track) > 0 && top < height) {
      slices.screen.push({ track: n, top });
      for (let row = 0; row < track.rows; row++) {
        const y = Math.round((top + row * rows) * ratio);
        paintRow(t, track.first + row, view, wide, line, odd, scratch, (i, x0, x1, light) => slices.words.push([i, LABELS + x0 / ratio, LABELS + x1 / ratio, y / ratio, light]));
        const image = new ImageData(wide, tall), pixels = new Int32Array(image.data.buffer);
        for (let k = 0; k < tall; k++) pixels.set(k % 4 < 2 ? line : odd, k * wide);
        pen.putImageData(image, Math.round(LABELS * ratio), y);
      }
    }
    top += trackHeight(track);
  });
}

function nameOf(i) {
  const region = regionOf.get(t.region[i]);
  if (!region) return "?";
  if (t.count && t.count[i] > 1) return `${count(t.count[i])} × ${region.name}`;
  if (region.kind === "iteration" && t.iteration[i] >= 0) return `iteration ${t.iteration[i]}`;
  if (region.kind === "kernel") return `${region.name} · program ${t.program[i]}`;
  return t.kind[i] === WAIT ? `wait: ${region.name}` : region.name;
}

function drawWords(pen) {
  const size = rowHeight() < 15 ? 9.5 : 11;
  pen.font = `${size}px ${css("--sans")}`;
  pen.textBaseline = "middle";
  const wide = size * 0.56;
  for (const [i, x0, x1, y, light] of slices.words) {
    const room = Math.floor((x1 - x0 - 6) / wide);
    let text = nameOf(i);
    if (text.length > room && /^iteration \d+$/.test(text)) text = text.slice(10);
    if (text.length > room && text.includes(" · program ")) text = `#${t.program[i]}`;
    if (text.length > room) text = room > 3 ? `${text.slice(0, room - 1)}…` : "";
    if (!text) continue;
    if (stoodStill(t, i)) { // words on stripes need a ground
      pen.fillStyle = css("--track");
      pen.fillRect(x0 + 2, y + 2, text.length * wide + 3, rowHeight() - 5);
    }
    pen.fillStyle = stoodStill(t, i) ? css("--text") : light ? ink(colour(t.region[i])) : css("--dim");
    pen.fillText(plain(text), x0 + 3, y + rowHeight() / 2 - 0.5);
  }
  pen.textBaseline = "alphabetic";
}

function drawRuler(pen, x, width, height) {
  pen.fillStyle = css("--panel");
  pen.fillRect(0, 0, LABELS, height);
  pen.font = `11.5px ${css("--sans")}`;
  for (const { track, top } of slices.screen) {
    pen.fillStyle = css("--text");
    fitText(pen, plain(data.tracks[track].name), 10, top + rowHeight() / 2 + 4, LABELS - 16);
  }
  pen.fillStyle = css("--panel");
  pen.fillRect(0, 0, width, RULER);
  pen.fillStyle = css("--line");
  pen.fillRect(0, RULER - 1, width, 1);
  const step = niceStep((view.to - view.from) / Math.max(2, (width - LABELS) / 110));
  const origin = view.low;
  for (let at = Math.ceil((view.from - origin) / step) * step; at + origin <= view.to; at += step) {
    const px = x(at + origin);
    pen.fillStyle = css("--line");
    pen.fillRect(px, RULER - 6, 1, 5);
    const said = step >= 1 || at === 0 ? tick(at, step) : `${at.toFixed(2)} ${units()[3][1]}`;
    if (px + 4 + pen.measureText(said).width <= width) label(pen, said, px + 4, 14); // half a number is none
  }
  if (range.from === null) return;
  const a = clamp(x(Math.min(range.from, range.to)), LABELS, width), b = clamp(x(Math.max(range.from, range.to)), LABELS, width);
  pen.fillStyle = css("--band");
  pen.fillRect(a, 0, Math.max(b - a, 1), height);
  pen.fillStyle = css("--accent");
  pen.fillRect(a, 0, 1, height);
  pen.fillRect(b, 0, 1, height);
  if (b - a <= 60) return;
  const said = duration(Math.abs(range.to - range.from)), wide = pen.measureText(said).width + 10;
  pen.fillStyle = css("--panel"); // the ruler's own words lie below
  pen.fillRect((a + b - wide) / 2, 2, wide, RULER - 5);
  pen.fillStyle = css("--accent");
  pen.textAlign = "center";
  pen.fillText(said, (a + b) / 2, 14);
  pen.textAlign = "left";
}

function tick(ns, step) {
  const [size, unit] = units().find(([s]) => Math.max(Math.abs(ns), step) >= s) || units()[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(ns / size).toFixed(Math.min(digits, 6))} ${unit}`;
}

// What does not fit is cut in the middle: the unit is at the start, the stream at the end.
function fitText(pen, text, x, y, room) {
  let kept = text.length;
  let shown = text;
  while (kept > 2 && pen.measureText(shown).width > room) {
    kept--;
    shown = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
  }
  pen.fillText(shown, x, y);
}

function roomForNames() {
  const longest = data.tracks.reduce((most, track) => Math.max(most, track.name.length), 0);
  LABELS = !onPaper && $("scroller").clientWidth < 600 ? 84 : clamp(20 + 6.3 * longest, 90, 200);
}

function niceStep(least) {
  const size = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  return size * ([1, 2, 5, 10].find((n) => n * size >= least) || 10);
}

function drawFocus(pen, x, width) {
  if (focus < 0) return;
  const place = placeOf(focus), n = trackOf(place);
  const at = slices.screen.find(({ track }) => track === n);
  if (!at) return;
  const y = at.top + (place - data.tracks[n].first) * rowHeight();
  const x0 = Math.max(x(t.start[focus]), LABELS), x1 = Math.min(x(t.start[focus] + t.length[focus]), width);
  if (x1 < LABELS || x0 > width) return;
  pen.strokeStyle = css("--text");
  pen.lineWidth = 2;
  pen.strokeRect(x0 - 0.5, y, Math.max(x1 - x0, 2), rowHeight() - 1);
}

// The whole trace on one line: launches as blocks, and what is shown as a window.
function drawOverview() {
  const canvas = $("overview"), ratio = window.devicePixelRatio || 1, width = onPaper ? PAPER.width : canvas.clientWidth, height = 20;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const whole = data.timeline.length_ns || 1;
  for (const launch of data.launches) {
    const x0 = ((launch.start_ns - data.timeline.origin_ns) / whole) * width, x1 = ((launch.stop_ns - data.timeline.origin_ns) / whole) * width;
    pen.fillStyle = launch.kernel === selected.kernel ? css("--bar") : css("--line");
    pen.fillRect(x0, 5, Math.max(1.5, x1 - x0 - 0.5), 10);
  }
  const a = (view.from / whole) * width, b = (view.to / whole) * width;
  pen.fillStyle = css("--band");
  pen.fillRect(a, 0, Math.max(b - a, 3), height);
  pen.strokeStyle = css("--accent");
  pen.strokeRect(a + 0.5, 0.5, Math.max(b - a, 3) - 1, height - 1);
}

function saidAbout(hidden) {
  const about = data.timeline, said = [], launch = data.launches.find((one) => String(one.id) === $("launch").value);
  // what is shown with it: of Cambricon-LLM the step, and its units as a launch of their own
  const beside = launch ? data.launches.filter((one) => one === launch || (one.start_ns < launch.stop_ns && one.stop_ns > launch.start_ns)) : [];
  const part = Math.min(1, ...beside.map((one) => one.part));
  if (part < 0.9995) said.push(`${percent(part)} recorded: gaps need not be idle`);
  if (about.merged) said.push(`${count(about.merged)} of ${count(about.intervals)} intervals are shorter than ${duration(about.shorter_than_ns)} and drawn together; tables count each`);
  if (about.edges > about.edges_drawn) said.push(`the first ${count(about.edges_drawn)} of ${count(about.edges)} arcs`);
  if (hidden) said.push(`zoom in to see ${count(hidden)} arcs`);
  const below = onPaper ? data.tracks.filter((track, n) => track.there && RULER + tops.of[n] > PAPER.tallest).length : 0;
  if (below) said.push(`${count(below)} tracks more than fit on a page`);
  return said.join(" · ");
}

// -- where things are ---------------------------------------------------------------------------------

function placeOf(i) {
  let low = 0, high = t.offsets.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (t.offsets[middle] <= i) low = middle;
    else high = middle;
  }
  return low;
}

const trackOf = (place) => data.tracks.findIndex((track) => place >= track.first && place < track.first + track.rows);

function sliceAt(px, py) {
  if (px < LABELS || py < RULER) return -1;
  const at = slices.screen.findLast(({ top }) => py >= top);
  if (!at) return -1;
  const track = data.tracks[at.track];
  const row = Math.floor((py - at.top) / rowHeight());
  if (row >= track.rows) return -1;
  const ns = timeAt(px), near = (2 * (view.to - view.from)) / plotWidth();
  const last = t.offsets[track.first + row + 1];
  const i = firstAfter(t, t.offsets[track.first + row], last, ns - near);
  return i < last && t.start[i] <= ns + near ? i : -1;
}

const timeAt = (px) => view.from + ((px - LABELS) / plotWidth()) * (view.to - view.from);

// -- moving --------------------------------------------------------------------------------------------

function show(from, to) {
  showTip(null);
  const least = 5, whole = view.high - view.low;
  const length = clamp(to - from, least, Math.max(whole * 1.06, least));
  const middle = (from + to) / 2, slack = 0.03 * whole;
  view.from = clamp(middle - length / 2, view.low - slack, Math.max(view.low - slack, view.high + slack - length));
  view.to = view.from + length;
  redraw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

const pan = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

function showLaunch(id) {
  const launch = data.launches.find((one) => one.id === id);
  const origin = data.timeline.origin_ns;
  [view.low, view.high] = launch ? [launch.start_ns - origin, launch.stop_ns - origin] : [0, data.timeline.length_ns];
  $("launch").value = launch ? String(id) : "all";
  placeTracks();
  roomForNames();
  show(view.low, view.high);
}

// Tracks with nothing on them in the launches that are shown take no room.
function placeTracks() {
  tops.rows = 0;
  for (const track of data.tracks) {
    track.there = false;
    for (let place = track.first; place < track.first + track.rows && !track.there; place++) {
      const i = firstAfter(t, t.offsets[place], t.offsets[place + 1], view.low - 1);
      track.there = i < t.offsets[place + 1] && t.start[i] <= view.high;
    }
    tops.rows += track.there ? track.rows : 0;
  }
  tops.whole = 0;
  tops.of = data.tracks.map((track) => { const top = tops.whole; tops.whole += trackHeight(track); return top; });
}

function launchChoice() {
  const mine = data.launches;
  const options = [el("option", { value: "all" }, `all ${count(mine.length)} recorded launches`)];
  for (const launch of mine.slice(0, CHOICES)) {
    const kernel = kernelOf.get(launch.kernel);
    const lasted = launch.duration_ns ?? launch.stop_ns - launch.start_ns;
    options.push(el("option", { value: launch.id }, `launch ${launch.id} · ${duration(lasted)} · ${kernel ? kernel.label : "?"}`));
  }
  if (mine.length > CHOICES) options.push(el("option", { disabled: true }, `+ ${count(mine.length - CHOICES)} more: search launch N`));
  $("launch").replaceChildren(...options);
}

// The launch of a kernel that is in the middle by its length, of those that the operating system disturbed least: neither
// the first, which is cold, nor a slow one.
function typicalLaunch(kernel) {
  const all = data.launches.filter((launch) => launch.kernel === kernel);
  const share = (launch) => launch.taken_ns / Math.max(launch.stop_ns - launch.start_ns, 1);
  const least = Math.min(...all.map(share));
  const mine = all.filter((launch) => share(launch) <= least + 0.01).sort((a, b) => a.stop_ns - a.start_ns - (b.stop_ns - b.start_ns));
  return mine.length ? mine[Math.floor((mine.length - 1) / 2)].id : null;
}

// -- a range, summed -----------------------------------------------------------------------------------

// Of a slice, what was work: gaps between merged slices and interruptions were not.
function shareOfWork(i) {
  if (!(t.length[i] > 0)) return 0;
  const covered = t.covered ? t.covered[i] : t.length[i];
  return Math.max(0, covered - (t.taken ? t.taken[i] : 0)) / t.length[i];
}

function sumRange() {
  // of one launch nothing beyond it counts
  const [from, to] = [Math.max(Math.min(range.from, range.to), view.low), Math.min(Math.max(range.from, range.to), view.high)];
  const totals = new Map();
  let slicesIn = 0;
  for (let place = 0; place + 1 < t.offsets.length; place++) {
    const last = t.offsets[place + 1];
    for (let i = firstAfter(t, t.offsets[place], last, from); i < last && t.start[i] < to; i++) {
      if (t.kind[i] === ASYNC) continue;
      const inside = Math.min(t.start[i] + t.length[i], to) - Math.max(t.start[i], from);
      const ns = inside * shareOfWork(i);
      const known = totals.get(t.region[i]) || { total: 0, self: 0, count: 0 };
      known.total += ns;
      known.self += ns;
      known.count += t.count ? t.count[i] : 1;
      slicesIn += t.count ? t.count[i] : 1;
      totals.set(t.region[i], known);
    }
  }
  for (const [id, sums] of totals) {
    let around = regionOf.get(id) ? regionOf.get(id).parent : null;
    while (around !== null && !totals.has(around)) around = regionOf.get(around) ? regionOf.get(around).parent : null;
    if (around !== null) totals.get(around).self -= sums.total;
  }
  return { from, to, totals, slices: slicesIn };
}

function rangeSums() {
  if (range.from === null || range.from === range.to) return [];
  const { from, to, totals, slices: n } = sumRange();
  const rows = [...totals].map(([id, sums]) => ({ id, ...sums, self: Math.max(sums.self, 0) })).filter((row) => row.self > 0).sort((a, b) => b.self - a.self);
  const whole = rows.reduce((sum, row) => sum + row.self, 0);
  const table = el("table", { class: "sums", id: "sums" }, rows.slice(0, 12).map((row) => el("tr", { onclick: () => selectRegion(row.id, "range") },
    el("td", { class: "name" }, swatch(row.id), regionOf.get(row.id) ? regionOf.get(row.id).name : "?"), el("td", { class: "num" }, duration(row.self)), el("td", { class: "num dim" }, percent(whole ? row.self / whole : 0)))));
  const more = rows.length > 12 ? [el("p", { class: "dim" }, `and ${rows.length - 12} more regions`)] : [];
  const about = data.timeline.merged || t.taken ? "~" : ""; // what lies where within a slice is not known
  return [el("h2", {}, `Selected ${duration(to - from)}`), el("p", { class: "dim", style: { margin: "2px 0" } }, `${count(n)} intervals, ${about}${duration(whole)} of work, by own time. Esc clears.`), table, ...more];
}
