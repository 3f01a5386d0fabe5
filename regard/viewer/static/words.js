// The words: two columns joined by lines, or running text, where patches are a picture.  All mark how much the chosen
// word looks at each.
const ROW = 28; // pixels of a word in a column; page.css says the same
const SEEN = 0.02; // what is below this share of the strongest is left out
const MOST_LINES = 1200; // drawn at once

const hexOf = (name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
// The panel's color mixed with --warm, and black or white on it, whichever can be read better: at least 4.5 to 1.
const shadeOf = (share) => {
  const [panel, warm] = [hexOf("--panel"), hexOf("--warm")];
  const rgb = panel.map((channel, i) => Math.round(channel + (warm[i] - channel) * share));
  return { paper: `rgb(${rgb.join(" ")})`, ink: luminance(rgb) > 0.179 ? "#000" : "#fff" };
};

const Words = (choose) => {
  const lines = document.getElementById("lines");
  const text = document.getElementById("text");
  const threads = document.getElementById("threads");
  const lists = {
    lines: { queries: lines.querySelector(".queries"), keys: lines.querySelector(".keys") },
    text: { queries: text.querySelector(".queries"), keys: text.querySelector(".keys") },
  };
  let map = null;
  let view = "lines";
  let chosen = null;
  let marked = [];
  let waiting = false;

  const wordAt = (target) => {
    const word = target.closest?.(".word");
    return word ? { side: word.parentElement.classList.contains("queries") ? "queries" : "keys", index: +word.dataset.index } : null;
  };
  for (const pane of [lines, text]) {
    pane.addEventListener("pointerover", (event) => choose.hover(wordAt(event.target)));
    pane.addEventListener("pointerleave", () => choose.hover(null));
    pane.addEventListener("click", (event) => choose.pin(wordAt(event.target)));
    pane.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && choose.pin(wordAt(event.target), true));
  }
  lines.addEventListener("scroll", () => drawSoon());
  new ResizeObserver(() => drawSoon()).observe(lines);
  new ResizeObserver(() => text.querySelectorAll(".patches").forEach(fitPatches)).observe(text);

  const fill = (list, words, isPicture) => {
    if (list.words === words) return;
    list.words = words;
    list.classList.toggle("patches", isPicture);
    if (isPicture) layPatches(list);
    list.replaceChildren(
      ...words.map(([label], index) => {
        const word = document.createElement("span");
        word.className = words[index + 1]?.[1] ? "word spaced" : "word"; // a space follows
        word.dataset.index = index;
        word.dir = "auto";
        word.textContent = label;
        word.title = label;
        word.tabIndex = index ? -1 : 0;
        word.setAttribute("role", "option");
        word.setAttribute("aria-selected", "false");
        if (isPicture) makePatch(word, index);
        return word;
      }),
    );
  };

  const show = (newMap, newView) => {
    clear();
    map = newMap;
    view = newView;
    lines.hidden = view !== "lines";
    text.hidden = view !== "text";
    const same = map.queries === map.keys;
    text.classList.toggle("short", map.queries.length + map.keys.length < 200);
    document.getElementById("sides").hidden = view !== "lines";
    document.getElementById("side-queries").textContent = `${map.kind.queries}, looks`;
    document.getElementById("side-keys").textContent = `${map.kind.keys}, is looked at`;
    text.classList.toggle("pictured", arePatches(map, "keys"));
    for (const side of view === "text" && same ? ["queries"] : ["queries", "keys"]) {
      fill(lists[view][side], map[side], view === "text" && arePatches(map, side));
    }
    lists.text.keys.hidden = document.getElementById("text-keys").hidden = same;
    document.getElementById("text-queries").textContent = same ? map.kind.queries : `${map.kind.queries}, looks`;
    document.getElementById("text-keys").textContent = `${map.kind.keys}, is looked at`;
    mark(chosen);
  };

  const clear = () => {
    for (const word of marked) {
      word.style.removeProperty("--shade");
      word.style.removeProperty("--ink-on-shade");
      word.style.removeProperty("--tint");
      word.classList.remove("on", "here");
      word.setAttribute("aria-selected", "false");
    }
    marked = [];
    for (const list of Object.values(lists[view])) list.classList.remove("lit");
  };

  // In running text one list serves both sides of self-attention.
  const listOf = (side) => (view === "text" && map.queries === map.keys ? lists.text.queries : lists[view][side]);

  const mark = (focus) => {
    clear();
    chosen = focus;
    if (focus) {
      const weights = weightsOfWord(map, focus);
      let top = 0;
      for (const weight of weights) if (weight > top) top = weight;
      const far = listOf(other(focus.side));
      listOf(focus.side).classList.add("lit");
      far.classList.add("lit");
      light(far, weights);
      weights.forEach((weight, index) => {
        const share = weight / (top || 1);
        const word = far.children[index];
        if (share < SEEN || word.classList.contains("patch")) return;
        const { paper, ink } = shadeOf((0.03 + 0.89 * share) * Math.min(1, 0.35 + top));
        word.style.setProperty("--shade", paper);
        word.style.setProperty("--ink-on-shade", ink);
        word.classList.add("on");
        marked.push(word);
      });
      const here = listOf(focus.side).children[focus.index];
      here.classList.add("here");
      here.setAttribute("aria-selected", "true");
      marked.push(here);
    } else if (arePatches(map, "keys")) light(listOf("keys"), weightsOfWord(map, null));
    drawSoon();
  };

  const light = (list, weights) => {
    const patches = [...list.querySelectorAll(".patch")];
    lightPatches(patches, weights);
    marked.push(...patches);
  };

  const drawSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (map && view === "lines") draw();
    });
  };

  const draw = () => {
    const width = threads.parentElement.clientWidth;
    const height = Math.min(lines.clientHeight, Math.max(map.queries.length, map.keys.length) * ROW);
    const pen = sized(threads, width, height);
    const top = lines.scrollTop;
    const color = getComputedStyle(document.documentElement).getPropertyValue("--warm");
    pen.strokeStyle = color;
    pen.lineCap = "round";
    const K = map.keys.length;
    const end = top + height;
    const inView = (row) => (row + 1) * ROW > top && row * ROW < end;
    const pairs = [];
    if (chosen) {
      const count = map[other(chosen.side)].length;
      for (let i = 0; i < count; i++) pairs.push(chosen.side === "queries" ? [chosen.index, i] : [i, chosen.index]);
    } else {
      const first = Math.floor(top / ROW); // a line that touches no word in view is left out
      const last = Math.ceil(end / ROW);
      for (let q = 0; q < map.queries.length; q++) {
        const all = q >= first && q < last;
        for (let k = all ? 0 : first; k < (all ? K : Math.min(K, last)); k++) {
          if (map.weights[q * K + k] >= SEEN * map.top) pairs.push([q, k]);
        }
      }
    }
    const weight = ([q, k]) => map.weights[q * K + k];
    const strongest = chosen ? Math.max(map.top * 0.25, pairs.reduce((most, pair) => Math.max(most, weight(pair)), 0)) : map.top;
    if (pairs.length > MOST_LINES) pairs.sort((a, b) => weight(b) - weight(a)).length = MOST_LINES;
    for (const [q, k] of pairs) {
      const share = weight([q, k]) / strongest;
      if (share < SEEN) continue;
      const from = q * ROW + ROW / 2 - top;
      const to = k * ROW + ROW / 2 - top;
      const alpha = chosen ? 0.2 + 0.75 * share : 0.04 + 0.66 * share ** 1.3;
      pen.globalAlpha = inView(q) && inView(k) ? alpha : alpha * 0.3;
      pen.lineWidth = 0.6 + (chosen ? 6 : 3.6) * share;
      pen.beginPath();
      pen.moveTo(4, from);
      pen.bezierCurveTo(width * 0.42, from, width * 0.58, to, width - 4, to);
      pen.stroke();
    }
  };

  const reveal = ({ side, index }, takeFocus) => {
    const word = listOf(side).children[index];
    const pane = view === "lines" ? lines : text;
    const box = word.getBoundingClientRect();
    const frame = pane.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom) pane.scrollTop += box.top - frame.top - frame.height / 2;
    for (const one of word.parentElement.querySelectorAll('[tabindex="0"]')) one.tabIndex = -1;
    word.tabIndex = 0;
    if (takeFocus) word.focus({ preventScroll: true });
  };

  const found = (hits) => {
    for (const word of document.querySelectorAll(".word.found")) word.classList.remove("found");
    for (const { side, index } of hits) listOf(side).children[index].classList.add("found");
  };

  return { show, mark, reveal, found, redraw: drawSoon };
};

// A canvas of this size in CSS pixels, sharp on any screen, with its pen.
const sized = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.height = `${height}px`;
  canvas.style.width = `${width}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
};
