// The roofline of a kernel: operations a second over operations for each byte, both logarithmic, below what the machine
// can do. The selected region is filled; a point is a region of the kernel, the ring all of it. What asks for no byte
// stands at the right edge.

function rooflineOf(region) {
  const kernel = kernelOf.get(region.kernel), found = kernel.roofline;
  if (!found) return [];
  const points = found.points.filter((point) => point.flops && point.seconds);
  const mine = found.points.find((point) => point.region === region.id) || (region.parent === null ? found.points.find((point) => point.region === null) : null);
  const parts = [el("h3", {}, `roofline, rates of a ${found.unit}${found.roofs ? "" : ": what it can do at most is not in this trace"}`)];
  if (mine) parts.push(el("p", { class: "dim" }, rateWords(mine, found.roofs)));
  if (points.length) parts.push(rooflineChart(points, found.roofs, mine, region));
  return mine || points.length ? parts : [];
}

const giga = (value) => `${value >= 1e12 ? (value / 1e12).toPrecision(3) + " T" : (value / 1e9).toPrecision(3) + " G"}`;

function rateWords(point, roofs) {
  const words = [];
  if (point.flops) words.push(`${giga(point.flops / point.seconds)}FLOP/s${share(point.flops / point.seconds, roofs && ableOf(point, roofs))}`);
  if (point.bytes) words.push(`${giga(point.bytes / point.seconds)}B/s${share(point.bytes / point.seconds, roofs && roofs.bytes_per_s[0])}`);
  if (point.flops && point.bytes) words.push(`${(point.flops / point.bytes).toPrecision(3)} FLOP for each byte`);
  return words.join(" · ");
}

// The roof of what computes: the highest, but for a point that is known to have nothing of tensor cores.
const ableOf = (point, roofs) => (point.tensor === 0 && roofs.flops_per_s.find((one) => !one[0].includes("tensor cores"))) || roofs.flops_per_s[0];

const share = (rate, roof) => (roof ? ` (${percent(rate / roof[1])} of ${roof[0]})` : "");

function rooflineChart(points, roofs, mine, region) {
  const known = points.filter((point) => point.bytes).map((point) => point.flops / point.bytes), rates = points.map((point) => point.flops / point.seconds);
  const able = roofs ? roofs.flops_per_s[0][1] : Math.max(...rates), memory = roofs ? roofs.bytes_per_s[0][1] : null;
  const ridge = memory ? [able / memory] : [];
  const ends = (values, low, high) => [10 ** Math.floor(Math.log10(Math.min(...values) * low)), 10 ** Math.ceil(Math.log10(Math.max(...values) * high))];
  const [left, right] = ends([...known, ...ridge, ...(known.length || ridge.length ? [] : [1])], 0.7, 1.5), [bottom, top] = ends([...rates, able], 0.7, 1.2);
  const intensity = points.map((point) => (point.bytes ? point.flops / point.bytes : right));
  const name = `roofline: ${points.length} of ${region.name}'s kernel`;
  const canvas = chart(168, name, (pen, width, height) => {
    const from = 40, base = height - 26;
    const x = (value) => from + ((width - from - 6) * Math.log(value / left)) / Math.log(right / left);
    const y = (value) => base - ((base - 8) * Math.log(value / bottom)) / Math.log(top / bottom);
    pen.strokeStyle = css("--line");
    pen.lineWidth = 1;
    for (let tick = left; tick <= right * 1.001; tick *= 10) { line(pen, x(tick), 8, x(tick), base); label(pen, short(tick), clamp(x(tick), from, width - 12), height - 14, "center"); }
    for (let tick = bottom; tick <= top * 1.001; tick *= 10) { line(pen, from, y(tick), width - 6, y(tick)); label(pen, tick >= 1e12 ? `${short(tick / 1e12)} T` : `${short(tick / 1e9)} G`, from - 4, y(tick) + 3, "right"); }
    label(pen, "FLOP for each byte", width - 6, height - 2, "right");
    for (const [said, rate] of roofs ? roofs.bytes_per_s : []) {
      const end = Math.min(right, able / rate), begin = Math.max(left, bottom / rate);
      if (begin >= end) continue;
      pen.strokeStyle = css("--dim");
      line(pen, x(begin), y(begin * rate), x(end), y(end * rate));
      label(pen, said, x(begin) + 4, clamp(y(begin * rate) - 6, 16, base - 4));
    }
    for (const [said, rate] of roofs ? roofs.flops_per_s : []) {
      pen.strokeStyle = css("--dim");
      line(pen, x(Math.max(left, memory ? rate / Math.max(...roofs.bytes_per_s.map((one) => one[1])) : left)), y(rate), width - 6, y(rate));
      label(pen, said, width - 8, y(rate) - 3, "right");
    }
    points.forEach((point, n) => {
      const whole = point.region === null, chosen = point === mine;
      pen.beginPath();
      pen.arc(x(intensity[n]), y(rates[n]), chosen ? 5.5 : whole ? 5 : 3.5, 0, 7);
      pen.fillStyle = pen.strokeStyle = whole ? css("--text") : rgb(colour(point.region));
      pen.lineWidth = 1.75;
      whole && !chosen ? pen.stroke() : pen.fill();
      if (chosen) { pen.strokeStyle = css("--text"); pen.stroke(); }
    });
    canvas.near = (at) => points.find((_, n) => Math.hypot(x(intensity[n]) - at.offsetX, y(rates[n]) - at.offsetY) < 8);
  });
  canvas.addEventListener("mousemove", (event) => {
    const point = canvas.near(event);
    showTip(event, point ? [el("strong", {}, point.name), rateWords(point, roofs)] : null);
  });
  canvas.addEventListener("mouseleave", () => showTip(null));
  return canvas;
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

const short = (value) => (value >= 0.01 && value < 1e5 ? String(Number(value.toPrecision(2))) : value.toExponential(0));
