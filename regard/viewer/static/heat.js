// The heat map: only what is in view is drawn, so a thousand words cost no more than twenty.
const LABELLED = 9; // pixels of a cell from which words are written beside it
const NUMBERED = 32; // and from which its share is written into it

// 256 colors from the panel's own through --warm to --hot.
const rampOf = () => {
  const stops = ["--panel", "--warm", "--hot"].map(hexOf);
  const ramp = new Uint32Array(256);
  const mix = (a, b, t) => a.map((channel, i) => Math.round(channel + (b[i] - channel) * t));
  for (let i = 0; i < 256; i++) {
    const t = (i / 255) ** 0.8;
    const [r, g, b] = t < 0.62 ? mix(stops[0], stops[1], t / 0.62) : mix(stops[1], stops[2], (t - 0.62) / 0.38);
    ramp[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return ramp;
};
const cssOf = (color) => `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;

// Paint a part of the map into a bitmap of the given size; a pixel shows the strongest weight that falls on it.
const paint = (map, ramp, width, height, part = { q: 0, k: 0, qs: map.queries.length, ks: map.keys.length }) => {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const K = map.keys.length;
  const ends = (at, count, size, length) => Math.min(length, Math.max(Math.floor(((at + 1) * count) / size), Math.floor((at * count) / size) + 1));
  for (let y = 0; y < height; y++) {
    const q0 = part.q + Math.floor((y * part.qs) / height);
    const q1 = part.q + ends(y, part.qs, height, part.qs);
    for (let x = 0; x < width; x++) {
      const k0 = part.k + Math.floor((x * part.ks) / width);
      const k1 = part.k + ends(x, part.ks, width, part.ks);
      let top = 0;
      for (let q = q0; q < q1; q++) for (let k = k0; k < k1; k++) top = Math.max(top, map.weights[q * K + k]);
      pixels[y * width + x] = ramp[Math.min(255, Math.round((top / map.top) * 255))];
    }
  }
  return image;
};

const Heat = (choose) => {
  const pane = document.getElementById("heat");
  const room = document.getElementById("heat-room");
  const canvas = document.getElementById("cells");
  const bitmap = document.createElement("canvas");
  let map = null;
  let ramp = rampOf();
  let size = 0; // of a cell in CSS pixels; it may be below one
  let gutter = { left: 0, top: 0 };
  let focus = null;
  let waiting = false;

  const measure = (words) => {
    const pen = canvas.getContext("2d");
    pen.font = font();
    return Math.min(92, words.slice(0, 400).reduce((most, [label]) => Math.max(most, pen.measureText(label.slice(0, 40)).width), 0)) + 8;
  };
  const font = () => `${size < 12 ? 10 : 12}px ${getComputedStyle(document.body).fontFamily}`;

  const guttersFor = (cell) =>
    cell < LABELLED ? { left: 1, top: 1, right: 1 } : { left: measure(map.queries), top: measure(map.keys) * 0.78 + 4, right: measure(map.keys) * 0.6 };

  const fit = () => {
    const width = pane.clientWidth;
    const height = Math.max(260, window.innerHeight * 0.56);
    const wide = guttersFor(LABELLED);
    const cell = Math.min(40, (width - wide.left - wide.right) / map.keys.length, (height - wide.top) / map.queries.length);
    return cell >= LABELLED ? cell : Math.min((width - 2) / map.keys.length, (height - 2) / map.queries.length, LABELLED - 0.01);
  };

  const layout = (cell) => {
    size = cell;
    gutter = guttersFor(size);
    room.style.width = `${gutter.left + size * map.keys.length + gutter.right}px`;
    room.style.height = `${gutter.top + size * map.queries.length + 1}px`;
    drawSoon();
  };

  const zoom = (factor) => {
    const q = focus?.queries ?? (pane.scrollTop + pane.clientHeight / 2) / size; // what stays in the middle
    const k = focus?.keys ?? focus?.queries ?? (pane.scrollLeft + pane.clientWidth / 2) / size;
    layout(factor === 0 ? fit() : Math.min(48, Math.max(fit() * 0.5, 0.25, size * factor)));
    pane.scrollTop = q * size - pane.clientHeight / 2;
    pane.scrollLeft = k * size - pane.clientWidth / 2;
  };

  const show = (newMap) => {
    const same = map && newMap.queries === map.queries && newMap.keys === map.keys;
    map = newMap;
    canvas.setAttribute("aria-label", `Heat map of ${map.queries.length} by ${map.keys.length} words; the list below gives the figures`);
    document.getElementById("top").textContent = percent(map.top);
    if (same) drawSoon();
    else layout(fit());
  };

  const recolour = () => {
    ramp = rampOf();
    const stops = [0, 51, 102, 153, 204, 255].map((i) => cssOf(ramp[i])).join(", ");
    document.documentElement.style.setProperty("--ramp", `linear-gradient(to right, ${stops})`);
    if (map) drawSoon();
  };

  const drawSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };

  const draw = () => {
    const width = Math.min(pane.clientWidth, parseFloat(room.style.width));
    const height = Math.min(pane.clientHeight, parseFloat(room.style.height));
    const pen = sized(canvas, width, height);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink");
    const soft = style.getPropertyValue("--soft");
    const x = (k) => gutter.left + k * size - pane.scrollLeft;
    const y = (q) => gutter.top + q * size - pane.scrollTop;
    const first = { q: Math.floor(pane.scrollTop / size), k: Math.floor(pane.scrollLeft / size) };
    const last = {
      q: Math.min(map.queries.length, Math.ceil((pane.scrollTop + height - gutter.top) / size)),
      k: Math.min(map.keys.length, Math.ceil((pane.scrollLeft + width - gutter.left) / size)),
    };
    const part = { q: first.q, k: first.k, qs: last.q - first.q, ks: last.k - first.k };
    if (part.qs < 1 || part.ks < 1) return;

    pen.save();
    pen.beginPath();
    pen.rect(gutter.left, gutter.top, width, height);
    pen.clip();
    const scale = Math.min(1, size * (window.devicePixelRatio || 1)); // pixels a cell, at most one
    bitmap.width = Math.max(1, Math.round(part.ks * scale));
    bitmap.height = Math.max(1, Math.round(part.qs * scale));
    bitmap.getContext("2d").putImageData(paint(map, ramp, bitmap.width, bitmap.height, part), 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(bitmap, x(first.k), y(first.q), part.ks * size, part.qs * size);
    if (size >= 8) {
      pen.strokeStyle = style.getPropertyValue("--panel");
      pen.lineWidth = 1.5;
      pen.beginPath();
      for (let q = first.q; q <= last.q; q++) pen.moveTo(x(first.k), y(q)), pen.lineTo(x(last.k), y(q));
      for (let k = first.k; k <= last.k; k++) pen.moveTo(x(k), y(first.q)), pen.lineTo(x(k), y(last.q));
      pen.stroke();
      pen.strokeStyle = style.getPropertyValue("--rule");
      pen.lineWidth = 1;
      pen.strokeRect(x(0) + 0.5, y(0) + 0.5, size * map.keys.length - 1, size * map.queries.length - 1);
    }
    if (size >= NUMBERED) numbers(pen, first, last, x, y);
    pen.strokeStyle = ink;
    pen.lineWidth = size < 4 ? 0.6 : 1.5;
    if (focus?.queries !== undefined) pen.strokeRect(x(0), y(focus.queries), size * map.keys.length, size);
    if (focus?.keys !== undefined) pen.strokeRect(x(focus.keys), y(0), size, size * map.queries.length);
    pen.restore();

    if (size < LABELLED) return;
    pen.font = font();
    pen.textBaseline = "middle";
    for (let q = first.q; q < last.q; q++) {
      if (y(q) + size / 2 < gutter.top) continue;
      pen.fillStyle = focus?.queries === q ? ink : soft;
      pen.textAlign = "right";
      pen.fillText(cut(map.queries[q][0]), gutter.left - 6, y(q) + size / 2);
    }
    for (let k = first.k; k < last.k; k++) {
      if (x(k) + size / 2 < gutter.left) continue;
      pen.save();
      pen.translate(x(k) + size / 2, gutter.top - 6);
      pen.rotate(-Math.PI / 3.6);
      pen.fillStyle = focus?.keys === k ? ink : soft;
      pen.textAlign = "left";
      pen.fillText(cut(map.keys[k][0]), 0, 0);
      pen.restore();
    }
  };

  const cut = (label) => (label.length > 15 ? `${[...label].slice(0, 13).join("")}…` : label);

  const numbers = (pen, first, last, x, y) => {
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const style = getComputedStyle(document.documentElement);
    for (let q = first.q; q < last.q; q++)
      for (let k = first.k; k < last.k; k++) {
        const weight = map.weights[q * map.keys.length + k];
        if (weight < 0.005) continue;
        pen.fillStyle = style.getPropertyValue(weight / map.top > 0.42 ? "--panel" : "--ink");
        pen.fillText(Math.round(weight * 100), x(k) + size / 2, y(q) + size / 2);
      }
  };

  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const q = Math.floor((event.clientY - box.top - gutter.top + pane.scrollTop) / size);
    const k = Math.floor((event.clientX - box.left - gutter.left + pane.scrollLeft) / size);
    const inside = event.clientY - box.top >= gutter.top && event.clientX - box.left >= gutter.left;
    return inside && map.queries[q] && map.keys[k] ? { side: "queries", index: q, across: k } : null;
  };
  canvas.addEventListener("pointermove", (event) => choose.hover(cellAt(event)));
  canvas.addEventListener("pointerleave", () => choose.hover(null));
  canvas.addEventListener("click", (event) => choose.pin(cellAt(event)));
  pane.addEventListener("scroll", drawSoon);
  let width = 0;
  new ResizeObserver(() => {
    if (map && pane.clientWidth !== width) {
      width = pane.clientWidth;
      layout(fit());
    }
  }).observe(pane);

  const mark = (word) => {
    focus = word && { [word.side]: word.index, ...(word.across === undefined ? {} : { [other(word.side)]: word.across }) };
    const cell = document.getElementById("cell");
    cell.textContent = "";
    if (word?.across !== undefined) {
      const weight = map.weights[word.index * map.keys.length + word.across];
      cell.textContent = `${map.queries[word.index][0]} → ${map.keys[word.across][0]}  ${percent(weight)}`;
    }
    drawSoon();
  };

  // Bring the chosen row or column into view.
  const reveal = () => {
    const center = (index, start, shown) => (index * size < start || (index + 1) * size > start + shown ? index * size - shown / 2 : start);
    if (focus?.queries !== undefined) pane.scrollTop = center(focus.queries, pane.scrollTop, pane.clientHeight - gutter.top);
    if (focus?.keys !== undefined) pane.scrollLeft = center(focus.keys, pane.scrollLeft, pane.clientWidth - gutter.left);
  };

  return { show, mark, zoom, reveal, recolour, thumbnail: (one, width, height) => paint(one, ramp, width, height) };
};
