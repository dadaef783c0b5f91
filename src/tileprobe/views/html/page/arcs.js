// Arcs: from where an asynchronous operation was issued to where it was waited for, and other edges between tracks.

const FEW = 1500; // arcs in view: more are a blur, so that zooming in is asked for

function drawArcs(pen, t, view, x, y) {
  if (!t.edge_from) return 0;
  const found = [];
  for (let n = 0; n < t.edge_from.length; n++) {
    if (t.edge_stop[n] >= view.from && t.edge_start[n] <= view.to) found.push(n);
  }
  if (found.length > FEW) return found.length;
  pen.lineWidth = 1.2;
  for (const n of found) {
    const x0 = x(t.edge_start[n]), x1 = x(t.edge_stop[n]);
    const y0 = y(t.edge_from[n]), y1 = y(t.edge_to[n]);
    if (y0 === null || y1 === null || (y0 === y1 && Math.abs(x1 - x0) < 4)) continue;
    const light = !paint.any || selected.regions.has(t.edge_region[n]);
    pen.strokeStyle = light ? css("--text") : css("--line");
    pen.globalAlpha = light ? (found.length > 200 ? 0.4 : 0.75) : 0.5;
    const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
    pen.beginPath();
    pen.moveTo(x0, y0);
    if (y0 === y1) pen.bezierCurveTo(x0, y0 - bend / 1.5, x1, y1 - bend / 1.5, x1, y1);
    else pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x1 - 5, y1 - 3);
    pen.lineTo(x1 - 5, y1 + 3);
    pen.fillStyle = pen.strokeStyle;
    pen.fill();
  }
  pen.globalAlpha = 1;
  document.documentElement.dataset.arcs = String(found.length);
  return 0;
}
