// The page comes to life: everything is drawn once, then each selection redraws what it touches.

function chooseTheme(name) {
  setTheme(name);
  assignColours();
}

function redrawAll() {
  drawSummary();
  drawTree();
  drawSource();
  drawLevels();
  lightLines();
  mixPaint();
  drawDetails();
  redraw();
}

let drawnKernel = null;
onSelection(() => {
  if (drawnKernel !== selected.kernel) {
    const moved = drawnKernel !== null;
    drawnKernel = selected.kernel;
    drawSummary();
    drawTree();
    drawSource();
    drawLevels();
    if (moved && t && selected.by !== "timeline" && selected.by !== "search") showLaunch(typicalLaunch(selected.kernel));
  }
  lightTree();
  lightLines();
  mixPaint();
  drawDetails();
  redraw();
});

function listenPage() {
  $("theme").addEventListener("click", () => { chooseTheme(dark() ? "light" : "dark"); redrawAll(); });
  $("help").addEventListener("click", () => $("keys").showModal());
  $("fit").addEventListener("click", () => show(view.low, view.high));
  $("in").addEventListener("click", () => zoom(0.6));
  $("out").addEventListener("click", () => zoom(1 / 0.6));
  $("launch").addEventListener("change", (event) => showLaunch(event.target.value === "all" ? null : Number(event.target.value)));
  $("search").addEventListener("input", (event) => search(event.target.value));
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { clearAll(); event.target.blur(); }
  });
  const rows = KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, what)));
  $("keys").replaceChildren(el("h2", {}, "Keys and mouse"), el("table", {}, rows), el("form", { method: "dialog" }, el("button", {}, "close")));
  const asked = matchMedia("(prefers-color-scheme: dark)");
  asked.addEventListener("change", () => { chooseTheme(asked.matches ? "dark" : "light"); redrawAll(); });
  new ResizeObserver(() => { redraw(); }).observe($("scroller"));
  new ResizeObserver(fitTree).observe($("regions"));
  new ResizeObserver(() => { drawCharts(); sayBelow(); }).observe($("details"));
  $("details").addEventListener("scroll", sayBelow);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  listenSplitter();
}

// Paper is light, and as wide as it is.
let before = null;
function print(begins) {
  if (begins) before = document.documentElement.dataset.theme;
  chooseTheme(begins ? "light" : before);
  onPaper = begins;
  roomForNames();
  redrawAll();
  drawTimeline();
}

function listenSplitter() {
  const bar = $("splitter");
  const grow = (height) => document.documentElement.style.setProperty("--dock", `${clamp(height, 120, window.innerHeight - 160)}px`);
  bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
  bar.addEventListener("pointermove", (event) => event.buttons === 1 && grow(window.innerHeight - event.clientY));
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowUp: 30, ArrowDown: -30 }[event.key];
    if (step) { event.preventDefault(); grow($("dock").clientHeight + step); }
  });
}

async function start() {
  chooseTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const heaviest = ranked()[0];
  if (!heaviest) {
    $("title").textContent = plain(data.title);
    $("summary").replaceChildren(el("p", {}, "The trace holds no kernel."));
    for (const id of ["panes", "dock", "splitter"]) $(id).hidden = true;
    document.documentElement.dataset.ready = "1";
    return;
  }
  listenPage();
  selectKernel(heaviest.id);
  t = await unpack();
  launchChoice();
  mixPaint();
  showLaunch(typicalLaunch(heaviest.id));
  listenTimeline();
  listenKeys();
  drawTimeline();
  document.documentElement.dataset.ready = "1";
}

start();
