// Slices become pixels. Every slice in view is looked at, also when hundreds of thousands are: one line of pixels is
// made for each row and repeated down its height, so that the work is that of the slices and not of their area. What is
// narrower than two pixels adds to the pixel it falls on, which takes the colour of the longest and fades with how little
// of it is covered.

const paint = { normal: new Int32Array(0), dim: new Int32Array(0), lit: new Uint8Array(0), any: false };

// The colours of this moment: what is not lit is dimmed once something is.
function mixPaint() {
  const most = data.regions.reduce((high, region) => Math.max(high, region.id), 0) + 1;
  const back = rgbOf("--track");
  paint.normal = new Int32Array(most);
  paint.dim = new Int32Array(most);
  paint.lit = new Uint8Array(most);
  paint.any = selected.regions.size > 0;
  for (const region of data.regions) {
    paint.normal[region.id] = pixel(colour(region.id));
    paint.dim[region.id] = pixel(mix(colour(region.id), back, RANGES.has(region.kind) ? 0.55 : 0.78));
    paint.lit[region.id] = selected.regions.has(region.id) ? 1 : 0;
  }
}

const searched = { hit: null }; // a function from a slice to whether it matches, while a search is on

const shown = (t, i) => (searched.hit ? searched.hit(i) : !paint.any || paint.lit[t.region[i]] === 1);

// The first slice of a row that ends after a time; slices of a row do not overlap.
function firstAfter(t, low, high, time) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (t.start[middle] + t.length[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Waits are striped, and what the operating system interrupted for a good part of its time.
const stoodStill = (t, i) => t.kind[i] === WAIT || (t.taken !== undefined && t.taken[i] > 0.2 * t.length[i]);

// Paints one row into `line` (and its striped twin `odd`), and calls `wide` for slices with room for words.
function paintRow(t, place, view, width, line, odd, scratch, wide) {
  const { cover, best, tint, lit } = scratch;
  const back = scratch.back;
  line.fill(back);
  odd.fill(back);
  cover.fill(0);
  best.fill(0);
  lit.fill(0);
  const scale = width / (view.to - view.from);
  const last = t.offsets[place + 1];
  for (let i = firstAfter(t, t.offsets[place], last, view.from); i < last && t.start[i] < view.to; i++) {
    const from = (t.start[i] - view.from) * scale;
    const to = from + t.length[i] * scale;
    const region = t.region[i];
    const light = shown(t, i);
    const value = light ? paint.normal[region] : paint.dim[region];
    if (to - from >= 2) {
      const x0 = Math.max(0, Math.round(from)), x1 = Math.min(width, Math.max(Math.round(to) - (to - from > 5 ? 1 : 0), x0 + 1));
      line.fill(value, x0, x1);
      odd.fill(stoodStill(t, i) ? back : value, x0, x1);
      for (let x = x0; x < x1; x++) cover[x] = lit[x] = 0;
      if (x1 - x0 > 24) wide(i, x0, x1, light);
    } else if (from >= 0 && from < width) {
      const x = from | 0;
      const size = t.kind[i] >= MARK ? 1 : Math.max(to - from, 1e-6);
      // once something is lit, only that counts where it is
      if (light && (paint.any || searched.hit)) {
        if (lit[x] === 0) best[x] = 0;
        lit[x] += size;
      } else if (lit[x] > 0) continue;
      cover[x] += size;
      if (size > best[x]) { best[x] = size; tint[x] = value; }
    }
  }
  for (let x = 0; x < width; x++) {
    const covered = lit[x] || cover[x];
    if (covered > 0) line[x] = odd[x] = blend(back, tint[x], Math.min(1, 0.3 + 0.7 * covered));
  }
}

const WAIT = data.timeline.kinds.indexOf("wait"), MARK = data.timeline.kinds.indexOf("mark"), ASYNC = data.timeline.kinds.indexOf("async");

function blend(a, b, share) {
  const one = (shift) => Math.round(((a >> shift) & 255) + ((((b >> shift) & 255) - ((a >> shift) & 255)) * share));
  return (255 << 24) | (one(16) << 16) | (one(8) << 8) | one(0);
}
