// What is selected, in one place: a kernel, regions, and lines of its source. Every part of the page listens and lights
// up what belongs to the selection; whoever changes it calls one of the functions below.

const RANGES = new Set(["partition", "kernel", "loop", "iteration", "scope"]);
const selected = { kernel: null, regions: new Set(), lines: new Set(), detail: null, by: "" };
const listeners = [];

const onSelection = (listener) => listeners.push(listener);
const tell = () => listeners.forEach((listener) => listener(selected));

function selectKernel(id) {
  if (selected.kernel === id) return;
  Object.assign(selected, { kernel: id, regions: new Set(), lines: new Set(), detail: hottest(id), by: "kernel" });
  tell();
}

function selectRegion(id, by) {
  const region = regionOf.get(id);
  if (!region) return;
  selected.kernel = region.kernel;
  Object.assign(selected, { regions: new Set([id]), lines: new Set(region.lines), detail: id, by });
  tell();
}

// A line of source, or several of one line of IR: the regions that were made from them, ranges left out unless there
// is nothing else.
function selectLines(ids, by) {
  const lines = new Set(ids);
  const mine = data.regions.filter((region) => region.kernel === selected.kernel && region.lines.some((line) => lines.has(line)));
  const stages = mine.filter((region) => !RANGES.has(region.kind));
  const begun = mine.filter((region) => RANGES.has(region.kind) && lines.has(region.lines[0]) && region.kind !== "kernel");
  const found = stages.length || begun.length ? [...stages, ...begun] : [];
  const most = found.length ? found.reduce((a, b) => (selfTime(b.id) > selfTime(a.id) ? b : a)) : null;
  Object.assign(selected, { lines, regions: new Set(found.map((region) => region.id)), detail: most ? most.id : selected.detail, by });
  tell();
}

function selectRegions(ids, by) {
  const found = [...ids];
  const lines = new Set(found.flatMap((id) => (RANGES.has(regionOf.get(id).kind) ? [] : regionOf.get(id).lines)));
  Object.assign(selected, { regions: new Set(found), lines, by });
  if (found.length) selected.detail = found.reduce((a, b) => (selfTime(b) > selfTime(a) ? b : a));
  tell();
}

function clearSelection() {
  Object.assign(selected, { regions: new Set(), lines: new Set(), by: "clear" });
  tell();
}

const rowOf = new Map();
for (const kernel of data.kernels) for (const row of kernel.tree) if (row.region !== null && !rowOf.has(row.region)) rowOf.set(row.region, row);
const selfTime = (id) => (rowOf.get(id) ? rowOf.get(id).self_ns : 0);

function hottest(kernel) {
  const leaves = kernelOf.get(kernel).tree.filter((row) => row.region !== null && !RANGES.has(row.kind));
  const rows = leaves.length ? leaves : kernelOf.get(kernel).tree.filter((row) => row.region !== null);
  return rows.length ? rows.reduce((a, b) => (b.self_ns > a.self_ns ? b : a)).region : null;
}
