// One head from the inside: the query of the chosen word against the keys, then the values it mixes.
const MOST_KEYS = 12;
const COLORS = "Each square is one channel: one color above zero, the other below; stronger is farther from it.";

const Vectors = () => {
  const section = document.getElementById("vectors");
  const note = document.getElementById("vectors-note");
  const body = document.getElementById("vectors-body");
  let map = null;
  let head = null;

  const show = async (newMap) => {
    map = newMap;
    head = null;
    section.hidden = !map.packed;
    if (!map.packed) return;
    const asked = map;
    const [queries, keys, values] = await Promise.all([map.packed.queries, map.packed.keys, map.packed.values].map(unpackVectors));
    if (asked === map) head = { queries, keys, values };
  };

  const rowOf = ({ rows, width }, index) => rows.subarray(index * width, (index + 1) * width);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

  // The scores, if softmax(q·k / √d) over the words in sight is what the head really computed, else null.
  const scoresOf = (q, weights) => {
    if (head.queries.width !== head.keys.width) return null;
    const query = rowOf(head.queries, q);
    const scores = map.keys.map((_, k) => dot(query, rowOf(head.keys, k)) / Math.sqrt(head.queries.width));
    const top = scores.reduce((most, s, k) => (weights[k] > 0 ? Math.max(most, s) : most), -Infinity);
    const powers = scores.map((s, k) => (weights[k] > 0 ? Math.exp(s - top) : 0));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.every((p, k) => Math.abs(p / sum - weights[k]) < 0.02) ? scores : null;
  };

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // A vector as a strip: one cell a channel, --warm above zero and --less below.
  const strip = (vector, top, name) => {
    const canvas = element("canvas");
    const cell = Math.max(2, Math.min(14, Math.floor(450 / vector.length)));
    const pen = sized(canvas, cell * vector.length, 18);
    const style = getComputedStyle(document.documentElement);
    pen.fillStyle = style.getPropertyValue("--wash");
    pen.fillRect(0, 0, cell * vector.length, 18);
    vector.forEach((x, i) => {
      pen.globalAlpha = Math.min(1, Math.abs(x) / (top || 1));
      pen.fillStyle = style.getPropertyValue(x > 0 ? "--warm" : "--less");
      pen.fillRect(i * cell, 0, cell - (cell > 4 ? 1 : 0), 18);
    });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${name}: ${Array.from(vector.subarray(0, 8), (x) => x.toFixed(2)).join(", ")} …`);
    return canvas;
  };

  const highest = ({ rows }) => rows.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

  const mark = (word) => {
    body.replaceChildren();
    if (!head) return;
    if (word?.side !== "queries") {
      note.textContent = "Choose a word that looks, to see its query meet the keys and mix the values.";
      return;
    }
    const q = word.index;
    const weights = weightsOfWord(map, { side: "queries", index: q });
    const scores = scoresOf(q, weights);
    note.textContent = scores
      ? `score = query · key / √${head.queries.width}; the softmax of the scores gives the weights; the output is the values, mixed by weight. ${COLORS}`
      : `The weights of this head come from more than query · key / √d (positions or another score have a say); the output is the values, mixed by weight. ${COLORS}`;
    const tops = { queries: highest(head.queries), keys: highest(head.keys), values: highest(head.values) };
    const table = element("table");
    const names = element("tr");
    for (const name of ["word", "query, keys", ...(scores ? ["score"] : []), "weight", "values"]) names.append(element("th", name));
    table.append(element("thead"));
    table.tHead.append(names);
    const rows = element("tbody");
    const row = (label, vector, role, score, weight, value, className) => {
      const line = element("tr", undefined, className);
      line.append(element("th", label));
      const cells = [vector ? strip(vector, tops[role], label) : "", ...(scores ? [score] : []), weight, value ? strip(value, tops.values, label) : ""];
      for (const content of cells) {
        const cell = element("td", undefined, typeof content === "string" ? "number" : "");
        cell.append(content);
        line.append(cell);
      }
      rows.append(line);
    };
    row(`query of “${map.queries[q][0]}”`, rowOf(head.queries, q), "queries", "", "", null);
    const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]).slice(0, MOST_KEYS);
    for (const k of order.filter((k) => weights[k] > 0)) {
      row(map.keys[k][0], rowOf(head.keys, k), "keys", scores ? scores[k].toFixed(2) : "", percent(weights[k]), rowOf(head.values, k));
    }
    const output = new Float32Array(head.values.width);
    weights.forEach((w, k) => rowOf(head.values, k).forEach((x, i) => (output[i] += w * x)));
    row("output", null, "keys", "", "", output, "sum");
    table.append(rows);
    body.append(table);
  };

  return { show, mark };
};
