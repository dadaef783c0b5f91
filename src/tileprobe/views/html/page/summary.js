// What ran where, how long, what it cost to look, and what the tools found, in words.

function drawSummary() {
  const kernel = kernelOf.get(selected.kernel);
  $("title").textContent = plain(data.title);
  $("title").title = plain(data.command ? `tileprobe ${data.command}` : data.title);
  const parts = data.kernels.length > 1 ? [kernelButtons()] : [];
  const facts = el("dl", { class: "facts" }, kernel ? kernel.facts.map(fact) : []);
  const said = kernel ? ownFindings(kernel) : data.findings;
  const notes = kernel ? kernel.notes : [];
  const list = [...said, ...notes];
  parts.push(el("div", { class: "band" }, facts, list.length ? sayings(list) : null));
  $("summary").replaceChildren(...parts);
}

const SENTENCES = 4; // of more, these are shown until one asks for the rest; warnings are always shown
let sayAll = false;

function sayings(list) {
  const first = new Set([...list.filter(warns), ...list.filter((one) => !warns(one))].slice(0, Math.max(SENTENCES, list.filter(warns).length)));
  const rest = list.length - first.size;
  const items = list.map((one) => el("li", { class: first.has(one) ? one.level : `${one.level} rest` }, one.text));
  const short = rest > 1 && !sayAll;
  document.documentElement.classList.toggle("said-all", rest > 1 && sayAll);
  if (rest > 1) items.push(el("li", { class: "button" }, el("button", { type: "button", id: "say", "aria-expanded": String(!short), onclick: turnSayings }, short ? `show ${rest} more` : "show fewer")));
  return el("ul", { class: short ? "findings short" : "findings" }, items);
}

const warns = ({ level }) => level === "warning";

function turnSayings() {
  sayAll = !sayAll;
  drawSummary();
  $("say").focus();
}

const fact = ({ name, value, note, warning }) =>
  el("div", { class: warning ? "fact warning" : "fact" }, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, note) : null));

// What is said of this kernel, and what is said of none in particular.
function ownFindings(kernel) {
  const mine = data.findings.filter((finding) => (finding.kernel ?? named(finding.text)) === kernel.id || (finding.kernel === null && named(finding.text) === null));
  return mine.map((finding) => ({ ...finding, text: trimmed(finding.text, kernel.label) }));
}

const begins = (text, name) => text.startsWith(`${name}:`) || text.startsWith(`${name},`);

// The kernel that a sentence begins with, of several the one with the longest name.
function named(text) {
  const found = data.kernels.filter((kernel) => begins(text, kernel.label)).sort((a, b) => b.label.length - a.label.length);
  return found.length ? found[0].id : null;
}

const trimmed = (text, name) => (begins(text, name) ? text.slice(name.length + 1).trim() : text);

// By time; a kernel of which there is code to look at comes before the hardware that ran it.
function ranked() {
  const code = (kernel) => Number(kernel.listings.length + kernel.ir.length > 0);
  return [...data.kernels].sort((a, b) => code(b) - code(a) || b.total_ns - a.total_ns);
}

// Shares of a whole make sense only where kernels run one after the other.
function inTurns() {
  const sorted = [...data.launches].sort((a, b) => a.start_ns - b.start_ns);
  return sorted.every((launch, n) => !n || launch.kernel === sorted[n - 1].kernel || launch.start_ns >= sorted[n - 1].stop_ns);
}

function kernelButtons() {
  const whole = Math.max(...data.kernels.map((kernel) => kernel.total_ns), 1);
  const all = ranked();
  const shown = all.slice(0, 11);
  const buttons = shown.map((kernel) => {
    const pressed = kernel.id === selected.kernel;
    const meter = el("i", { style: { width: `${(100 * kernel.total_ns) / whole}%` } });
    return el("button", { type: "button", "aria-pressed": String(pressed), title: plain([kernel.label, kernel.signature || kernel.place].filter(Boolean).join(" · ")), onclick: () => selectKernel(kernel.id) },
      el("span", { class: "what" }, kernel.label), el("span", { class: "dim" }, [duration(kernel.total_ns), inTurns() ? percent(kernel.share) : "", kernel.target].filter(Boolean).join(" · ")), meter);
  });
  if (all.length > shown.length) {
    const rest = el("select", { "aria-label": "more kernels", onchange: (event) => event.target.value && selectKernel(Number(event.target.value)) },
      el("option", { value: "" }, `+ ${all.length - shown.length} more`),
      all.slice(shown.length).map((kernel) => el("option", { value: kernel.id, selected: kernel.id === selected.kernel }, `${kernel.label} · ${duration(kernel.total_ns)}`)));
    buttons.push(rest);
  }
  return el("div", { class: "kernels", role: "group", "aria-label": "kernels by time" }, buttons);
}
