// The data of the page: JSON as it is, and the numbers of the timeline, unpacked (views/html/packing.py packs them).

const data = JSON.parse(document.getElementById("data").textContent);
const regionOf = new Map(data.regions.map((region) => [region.id, region]));
const kernelOf = new Map(data.kernels.map((kernel) => [kernel.id, kernel]));
const TYPES = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
  f4: Float32Array, f8: Float64Array, u8: BigUint64Array, i8: BigInt64Array,
};

async function inflate(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Bytes of one weight lie side by side; columns that grow are differences.
function column(bytes, at, { type, count, growing }) {
  const size = TYPES[type].BYTES_PER_ELEMENT;
  const mixed = new Uint8Array(count * size);
  for (let b = 0; b < size; b++) {
    const from = at + b * count;
    for (let i = 0; i < count; i++) mixed[i * size + b] = bytes[from + i];
  }
  const values = new TYPES[type](mixed.buffer);
  if (!growing) return values;
  const sums = new Float64Array(count);
  let sum = 0;
  for (let i = 0; i < count; i++) sums[i] = sum += values[i];
  return sums;
}

async function unpack() {
  const bytes = await inflate(document.getElementById("numbers").textContent.trim());
  const found = {};
  let at = 0;
  for (const part of data.timeline.columns) {
    found[part.name] = column(bytes, at, part);
    at += part.count * TYPES[part.type].BYTES_PER_ELEMENT;
  }
  const grain = data.timeline.grain_ns;
  if (grain !== 1) for (const name of ["start", "length"]) found[name] = Float64Array.from(found[name], (grains) => grains * grain);
  let first = 0;
  for (const track of data.tracks) {
    track.first = first;
    first += track.rows;
  }
  return found;
}
