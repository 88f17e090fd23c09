"use strict";
// The map as a canvas, and tables that sort and filter. Text from data is set as text only.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  const number = (value) => {
    if (value === null) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
    return size >= 1e4 ? grouped(value.toFixed(0)) : String(Number(value.toPrecision(4)));
  };
  const whole = (value) => (value === null ? "–" : grouped(String(value)));

  // ---- the map ----
  const n = data.x.length;
  const canvas = byId("map-canvas"), pen = canvas.getContext("2d");
  const tip = byId("map-tip"), key = byId("map-key");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const reference = new Uint8Array(n);
  for (const i of data.reference) reference[i] = 1;
  const hidden = new Set();
  let colour = data.colourings[0], width = 0, height = 0, hovered = -1, waiting = false;
  let scale = 1, shiftX = 0, shiftY = 0, home = 1, centreX = 0, centreY = 0, halfX = 1e-9, halfY = 1e-9;

  const extent = (values, keep) => {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < values.length; i++) {
      const v = values[i];
      if (v === null || (keep && !keep(i))) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return low <= high ? [low, high] : null;
  };
  const spanX = extent(data.x), spanY = extent(data.y);
  centreX = (spanX[0] + spanX[1]) / 2; centreY = (spanY[0] + spanY[1]) / 2;
  halfX = Math.max((spanX[1] - spanX[0]) / 2, 1e-9); halfY = Math.max((spanY[1] - spanY[0]) / 2, 1e-9);
  const ranges = {
    return: extent(data.r, (i) => !reference[i]),
    step: extent(data.s, (i) => !reference[i]),
  };
  const theme = {};
  const readTheme = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "soft", "raised", "lone", "reference"]) theme[name] = style.getPropertyValue("--" + name).trim();
  };
  const shade = (stops, t) => stops[Math.min(stops.length - 1, Math.max(0, Math.floor(t * stops.length)))];
  const fine = (stops) => {
    // 64 shades between the stops given, so that points can be drawn in few batches.
    const rgb = stops.map((s) => [1, 3, 5].map((k) => parseInt(s.slice(k, k + 2), 16)));
    return Array.from({ length: 64 }, (_, k) => {
      const at = (k / 63) * (rgb.length - 1), a = Math.min(rgb.length - 2, Math.floor(at));
      const c = [0, 1, 2].map((j) => Math.round(rgb[a][j] + (rgb[a + 1][j] - rgb[a][j]) * (at - a)));
      return `rgb(${c.join(",")})`;
    });
  };
  const scales = { return: fine(data.scales.return), step: fine(data.scales.step) };
  const colourOf = (i) => {
    if (reference[i]) return theme.reference;
    if (colour === "group") return data.g[i] < 0 ? theme.lone : data.groupColours[data.g[i]];
    const value = (colour === "return" ? data.r : data.s)[i], range = ranges[colour];
    if (value === null || !range) return "";
    return shade(scales[colour], range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 0.5);
  };
  const shown = (i) => !hidden.has(reference[i] ? "reference" : data.g[i]);
  const screenX = (x) => width / 2 + shiftX + (x - centreX) * scale;
  const screenY = (y) => height / 2 + shiftY - (y - centreY) * scale;
  const radius = () => {
    const base = Math.min(6.5, Math.max(1.5, 150 / Math.sqrt(n)));
    return base * Math.min(2.2, Math.max(0.85, Math.pow(scale / home, 0.3)));
  };

  const drawRuns = (ink) => {
    const many = data.runs.length > 60;
    pen.lineJoin = "round";
    for (const run of data.runs) {
      if (hidden.has(run.g)) continue;
      const rows = run.rows;
      pen.strokeStyle = colour === "group" ? data.groupColours[run.g] : ink;
      pen.globalAlpha = many ? 0.22 : 0.5;
      pen.lineWidth = many ? 0.8 : 1.4;
      pen.beginPath();
      rows.forEach((i, k) => pen[k ? "lineTo" : "moveTo"](screenX(data.x[i]), screenY(data.y[i])));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  };
  const drawJoins = () => {
    pen.strokeStyle = theme.reference; pen.lineWidth = 7; pen.globalAlpha = 0.5; pen.lineCap = "round";
    pen.beginPath();
    for (const [i, j] of data.joins) {
      if (!shown(i) || !shown(j)) continue;
      pen.moveTo(screenX(data.x[i]), screenY(data.y[i])); pen.lineTo(screenX(data.x[j]), screenY(data.y[j]));
    }
    pen.stroke(); pen.lineCap = "butt"; pen.globalAlpha = 1;
  };
  const drawEnds = (ink, r) => {
    if (data.runs.length > 60) return;
    for (const run of data.runs) {
      if (hidden.has(run.g)) continue;
      const rows = run.rows, first = rows[0], last = rows[rows.length - 1];
      pen.strokeStyle = ink; pen.lineWidth = 1.2;
      pen.beginPath();
      pen.arc(screenX(data.x[first]), screenY(data.y[first]), r + 3, 0, 7);
      pen.stroke();
      const bx = screenX(data.x[last]), by = screenY(data.y[last]);
      let k = rows.length - 2;
      while (k > 0 && Math.hypot(bx - screenX(data.x[rows[k]]), by - screenY(data.y[rows[k]])) < 1) k--;
      const dx = bx - screenX(data.x[rows[k]]), dy = by - screenY(data.y[rows[k]]), d = Math.hypot(dx, dy);
      if (d < r + 4) continue;
      const ux = dx / d, uy = dy / d, tipX = bx - ux * (r + 1), tipY = by - uy * (r + 1);
      pen.fillStyle = colour === "group" ? data.groupColours[run.g] : ink;
      pen.beginPath();
      pen.moveTo(tipX, tipY);
      pen.lineTo(tipX - ux * 9 - uy * 4, tipY - uy * 9 + ux * 4);
      pen.lineTo(tipX - ux * 9 + uy * 4, tipY - uy * 9 - ux * 4);
      pen.fill();
    }
  };
  const drawPoints = (r, edge) => {
    const batches = new Map();
    for (let i = 0; i < n; i++) {
      if (!shown(i)) continue;
      const x = screenX(data.x[i]), y = screenY(data.y[i]);
      if (x < -10 || y < -10 || x > width + 10 || y > height + 10) continue;
      const style = colourOf(i), name = (reference[i] ? "0" : "1") + style;
      if (!batches.has(name)) batches.set(name, { style, back: reference[i], list: [] });
      batches.get(name).list.push(i, x, y);
    }
    const ordered = [...batches.values()].sort((a, b) => b.back - a.back);
    for (const { style, back, list } of ordered) {
      const size = back ? r * 0.62 : r;
      pen.beginPath();
      for (let k = 0; k < list.length; k += 3) {
        const i = list[k], x = list[k + 1], y = list[k + 2];
        if (!back && data.s[i] === null && data.anySteps) {
          pen.moveTo(x, y - size * 1.15); pen.lineTo(x + size * 1.15, y);
          pen.lineTo(x, y + size * 1.15); pen.lineTo(x - size * 1.15, y); pen.closePath();
        } else { pen.moveTo(x + size, y); pen.arc(x, y, size, 0, 6.2832); }
      }
      if (style) { pen.fillStyle = style; pen.fill(); } else { pen.fillStyle = edge; pen.fill(); }
      if (!style) { pen.strokeStyle = theme.lone; pen.lineWidth = 1.2; pen.stroke(); }
      else if (r > 3) { pen.strokeStyle = edge; pen.lineWidth = 1; pen.stroke(); }
    }
  };
  const draw = () => {
    waiting = false;
    readTheme();
    const { soft: ink, raised: edge, ink: strong } = theme;
    pen.clearRect(0, 0, width, height);
    const r = radius(), lines = byId("map-lines").checked;
    if (byId("map-joins").checked) drawJoins();
    if (lines) drawRuns(ink);
    drawPoints(r, edge);
    if (lines) drawEnds(strong, r);
    if (hovered >= 0) {
      pen.strokeStyle = strong; pen.lineWidth = 2;
      pen.beginPath(); pen.arc(screenX(data.x[hovered]), screenY(data.y[hovered]), r + 4, 0, 7); pen.stroke();
    }
  };
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  const resetView = () => {
    home = scale = 0.91 * Math.min(width / (2 * halfX), height / (2 * halfY));
    shiftX = shiftY = 0; redraw();
  };
  const fit = () => {
    const box = canvas.getBoundingClientRect(), ratio = Math.min(2, window.devicePixelRatio || 1);
    if (!box.width) return;
    const before = home;
    width = box.width; height = box.height;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    home = 0.91 * Math.min(width / (2 * halfX), height / (2 * halfY));
    scale *= home / before; redraw();
  };
  const zoom = (factor, x, y) => {
    const next = Math.min(home * 400, Math.max(home * 0.4, scale * factor)), real = next / scale;
    shiftX = (shiftX + width / 2 - x) * real + x - width / 2;
    shiftY = (shiftY + height / 2 - y) * real + y - height / 2;
    scale = next; redraw();
  };

  // Cells of the plane, so that the policy under the pointer is found without looking at all.
  const cells = new Map(), side = Math.max(1, Math.ceil(Math.sqrt(n / 4)));
  const cellX = (x) => Math.floor(((x - spanX[0]) / (2 * halfX)) * side);
  const cellY = (y) => Math.floor(((y - spanY[0]) / (2 * halfY)) * side);
  for (let i = 0; i < n; i++) {
    const id = cellX(data.x[i]) * 100003 + cellY(data.y[i]);
    if (!cells.has(id)) cells.set(id, []);
    cells.get(id).push(i);
  }
  const nearest = (px, py) => {
    const reach = Math.max(12, radius() + 4);
    const x = centreX + (px - width / 2 - shiftX) / scale, y = centreY - (py - height / 2 - shiftY) / scale;
    const d = reach / scale, x0 = cellX(x - d), x1 = cellX(x + d), y0 = cellY(y - d), y1 = cellY(y + d);
    let best = -1, least = reach * reach;
    const look = (i) => {
      if (!shown(i)) return;
      const far = (screenX(data.x[i]) - px) ** 2 + (screenY(data.y[i]) - py) ** 2 + (reference[i] ? 30 : 0);
      if (far < least) { least = far; best = i; }
    };
    if ((x1 - x0 + 1) * (y1 - y0 + 1) > n) for (let i = 0; i < n; i++) look(i);
    else for (let a = x0; a <= x1; a++) for (let b = y0; b <= y1; b++) (cells.get(a * 100003 + b) || []).forEach(look);
    return best;
  };
  const point = (i) => {
    if (i !== hovered) { hovered = i; redraw(); }
    tip.hidden = i < 0;
    if (i < 0) return;
    const list = make("dl");
    const fact = (name, value) => list.append(make("dt", name), make("dd", value));
    if (data.g[i] >= 0) fact("group", data.groups[data.g[i]]);
    if (data.s[i] !== null) fact("step", whole(data.s[i]));
    fact("return", data.r[i] === null ? "not known" : number(data.r[i]) + (data.d[i] === null ? "" : " ± " + number(data.d[i])));
    if (reference[i]) fact("shown as", "reference");
    if (data.b[i] !== null) fact("behaviour", String(data.b[i]));
    tip.replaceChildren(make("strong", data.l[i]), list);
    const x = screenX(data.x[i]), y = screenY(data.y[i]);
    const left = x + 16 + tip.offsetWidth > width ? x - 16 - tip.offsetWidth : x + 16;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.min(height - tip.offsetHeight - 4, Math.max(4, y - tip.offsetHeight / 2)) + "px";
  };

  const pointers = new Map();
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = place(event), steps = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    zoom(Math.exp(-Math.max(-200, Math.min(200, steps)) * 0.0022), x, y); point(nearest(x, y));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, place(event));
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event), was = pointers.get(event.pointerId);
    if (!was) { point(nearest(now.x, now.y)); return; }
    if (pointers.size === 2) {
      const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const before = Math.hypot(was.x - other.x, was.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      if (before > 0 && after > 0) zoom(after / before, (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else { shiftX += now.x - was.x; shiftY += now.y - was.y; redraw(); }
    point(-1); pointers.set(event.pointerId, now);
  });
  const release = (event) => { pointers.delete(event.pointerId); if (!pointers.size) canvas.classList.remove("dragging"); };
  canvas.addEventListener("pointerup", (event) => { release(event); const { x, y } = place(event); point(nearest(x, y)); });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("dblclick", (event) => { const { x, y } = place(event); zoom(2, x, y); });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (moves[event.key]) { shiftX += moves[event.key][0]; shiftY += moves[event.key][1]; redraw(); }
    else if (event.key === "+" || event.key === "=") zoom(1.3, width / 2, height / 2);
    else if (event.key === "-") zoom(1 / 1.3, width / 2, height / 2);
    else if (event.key === "0") resetView();
    else return;
    event.preventDefault(); point(-1);
  });

  const drawKey = () => {
    key.replaceChildren();
    if (colour !== "group" && ranges[colour]) {
      const range = ranges[colour], bar = make("div", undefined, "scale"), ends = make("div", undefined, "ends");
      bar.style.background = `linear-gradient(to right, ${data.scales[colour].join(",")})`;
      const text = colour === "step" ? whole : number;
      ends.append(make("span", text(range[0])), make("span", text(range[1])));
      key.append(make("h3", colour === "return" ? "Mean return" : "Training step"), bar, ends);
    }
    if (colour === "group") {
      const list = make("ul");
      const entry = (id, name, paint, lone) => {
        const item = make("li"), button = make("button"), dot = make("i", undefined, lone ? "lone" : "");
        dot.style.background = paint; button.type = "button";
        button.setAttribute("aria-pressed", String(!hidden.has(id)));
        button.append(dot, make("span", name)); item.append(button); list.append(item);
        button.addEventListener("click", () => {
          if (hidden.has(id)) hidden.delete(id); else hidden.add(id);
          button.setAttribute("aria-pressed", String(!hidden.has(id))); point(-1); redraw();
        });
      };
      data.groups.slice(0, 200).forEach((name, g) => entry(g, name, data.groupColours[g]));
      if (data.anyLone) entry(-1, "no run", "var(--lone)", data.anySteps);
      if (data.reference.length) entry("reference", "reference", "var(--reference)");
      key.append(make("h3", "Groups"), list);
      if (data.groups.length > 200) key.append(make("p", `and ${data.groups.length - 200} more`, "hint"));
    }
    const signs = make("div", undefined, "signs");
    if (data.runs.length && data.runs.length <= 60) signs.append(make("div", "○ first checkpoint of a run"), make("div", "▸ last checkpoint of a run"));
    if (data.anySteps && data.anyLone && colour !== "group") signs.append(make("div", "◆ no run"));
    if (data.joins.length) signs.append(make("div", "▬ cannot be told apart"));
    key.append(signs);
  };
  const buttons = [...document.querySelectorAll("[data-colour]")];
  const choose = (name) => {
    colour = name;
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.colour === name));
    drawKey(); redraw();
  };
  for (const b of buttons) {
    b.hidden = !data.colourings.includes(b.dataset.colour);
    b.addEventListener("click", () => choose(b.dataset.colour));
  }
  for (const [id, there] of [["map-lines", data.runs.length], ["map-joins", data.joins.length]]) {
    byId(id).addEventListener("change", redraw);
    byId(id).parentElement.hidden = !there;
  }
  byId("map-reset").addEventListener("click", resetView);
  byId("map-live").hidden = false;
  byId("map-static").classList.add("print-only");  // the picture stays for paper
  dark.addEventListener("change", redraw);
  new ResizeObserver(fit).observe(canvas);
  fit(); resetView(); choose(colour);

  // ---- tables ----
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button"; head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const numeric = head.classList.contains("n");
        const value = (row) => {
          const cell = row.cells[column];
          return numeric ? (cell.dataset.v ? Number(cell.dataset.v) : NaN) : cell.textContent;
        };
        const rows = [...body.rows].map((row) => [value(row), row]);
        rows.sort(([a], [b]) => {
          if (!numeric) return (down ? -1 : 1) * a.localeCompare(b, undefined, { numeric: true });
          if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
          return (down ? -1 : 1) * (a - b);
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
  const policyRows = [...document.querySelectorAll("#policy-table tbody tr")];
  const filter = byId("filter"), count = byId("filter-count");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of policyRows) {
      const text = row.textContent.toLowerCase(), show = words.every((w) => text.includes(w));
      row.hidden = !show; left += show;
    }
    count.textContent = words.length ? `${left} of ${policyRows.length}` : "";
  });
  for (const row of policyRows) {
    row.addEventListener("mouseenter", () => { hovered = Number(row.dataset.i); redraw(); });
    row.addEventListener("mouseleave", () => { hovered = -1; redraw(); });
  }
})();
