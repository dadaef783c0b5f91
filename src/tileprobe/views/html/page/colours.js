// A colour for each region, from a palette that colour-blind people can tell apart (Okabe and Ito): by what it does,
// and lighter or darker where several do the same. What only holds others (kernel, loop, iteration) is grey.

const FAMILIES = [
  [/^(kernel|loop|iteration|scope|partition|step)$/, null],
  [/dot|wgmma|mma|gemm|matmul|compute/, [213, 94, 0]],
  [/async|copy|tma|wait|barrier|sync/, [230, 159, 0]],
  [/reduce|scan|histogram|sort/, [204, 121, 167]],
  [/store|write|atomic/, [86, 180, 233]],
  [/load|read|gather/, [0, 114, 178]],
  [/exp|log|sqrt|sin|cos|div|mul|add|sub|max|min|where|fill|cast/, [0, 158, 115]],
];
const OTHERS = [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233], [230, 159, 0], [150, 140, 40]];
const GREYS = { kernel: 0.0, loop: 0.18, iteration: 0.34, scope: 0.26, partition: 0.1, step: 0.2 };
const colourOf = new Map();

function mix(a, b, share) {
  return a.map((value, n) => Math.round(value + (b[n] - value) * share));
}

// Regions that do the same follow each other through three shades.
function assignColours() {
  const used = new Map();
  let other = 0;
  for (const region of data.regions) {
    const family = FAMILIES.find(([pattern]) => pattern.test(region.kind)) || FAMILIES.find(([pattern, rgb]) => rgb && pattern.test(region.name));
    let rgb;
    if (family && family[1] === null) {
      const depth = GREYS[region.kind] ?? 0.2;
      rgb = dark() ? mix([96, 104, 120], [62, 68, 80], depth * 2) : mix([150, 158, 172], [214, 219, 227], depth * 2);
    } else {
      const base = family ? family[1] : OTHERS[other++ % OTHERS.length];
      const key = family ? `${region.kernel}:${base}` : region.id;
      const turn = used.get(key) || 0;
      used.set(key, turn + 1);
      rgb = mix(base, turn % 3 === 1 ? [255, 255, 255] : [0, 0, 0], turn % 3 === 0 ? 0 : turn % 3 === 1 ? 0.32 : 0.26);
    }
    colourOf.set(region.id, rgb);
  }
}

const colour = (id) => colourOf.get(id) || [140, 140, 140];
const rgb = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
const ink = ([r, g, b]) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10131a" : "#ffffff");
const pixel = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;

function rgbOf(name) {
  const found = css(name);
  const hex = found.match(/^#(..)(..)(..)$/);
  return hex ? hex.slice(1).map((part) => parseInt(part, 16)) : [128, 128, 128];
}

// Cividis, which reads the same for most kinds of colour blindness, from few to many.
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];
function heat(share) {
  const at = clamp(share, 0, 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return mix(CIVIDIS[low], CIVIDIS[low + 1], at - low);
}

function swatch(region) {
  return el("i", { class: "swatch", style: { background: rgb(colour(region)) } });
}
