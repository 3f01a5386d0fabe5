// The page: what is chosen, the controls, the keys.
const state = { kind: data.kinds[0].name, layer: 0, head: 0, view: null, hover: null, pinned: null };
let headBefore = null; // the head that the mean was asked for from
const at = (id) => document.getElementById(id);
const said = at("said");
let map = null;

const chosen = () => state.hover ?? state.pinned;

const choose = {
  hover: (word) => {
    if (word === null && state.hover === null) return;
    state.hover = word;
    mark();
  },
  pin: (word, stay = false) => {
    const again = word && state.pinned && word.side === state.pinned.side && word.index === state.pinned.index && word.across === state.pinned.across;
    state.pinned = again && !stay ? null : word;
    if (!stay) state.hover = null;
    mark();
    if (word) announce();
  },
};
const words = Words(choose);
const heat = Heat(choose);
const vectors = Vectors();
const heads = Heads((change) => go(change), heat.thumbnail);

const pressed = (parent, selected) => {
  for (const button of parent.querySelectorAll("button")) button.setAttribute("aria-pressed", String(selected(button)));
};

const mark = () => {
  const word = chosen();
  words.mark(word);
  heat.mark(word);
  vectors.mark(word);
  read(word);
};

// The strongest words for the chosen one, as a list.
const strongest = (word, n) => {
  const weights = weightsOfWord(map, word);
  const order = Array.from(weights.keys()).filter((i) => weights[i] >= 0.0005);
  return order.sort((a, b) => weights[b] - weights[a]).slice(0, n).map((index) => ({ index, weight: weights[index] }));
};

const headingOf = (word) => {
  if (word) return word.side === "queries" ? `“${map.queries[word.index][0]}” looks at` : `Who looks at “${map.keys[word.index][0]}”`;
  return arePatches(map, "keys") ? `Mean of all ${manyOf(map, "queries")}` : "Where it looks";
};

const read = (word) => {
  at("prompt").hidden = Boolean(word);
  at("reading-title").textContent = headingOf(word);
  const rows = word || arePatches(map, "keys") ? strongest(word, 10) : [];
  at("reading").replaceChildren(
    ...rows.map(({ index, weight }) => {
      const item = document.createElement("li");
      const go = document.createElement("button");
      const bar = document.createElement("i");
      const share = document.createElement("b");
      go.type = "button";
      const side = word ? other(word.side) : "keys";
      const label = map[side][index][0];
      go.textContent = label;
      if (map[side].some(([same], i) => same === label && i !== index)) go.append(place(index));
      go.addEventListener("click", () => {
        choose.pin(word ? { side: word.side, index: word.index, across: index } : { side, index }, true);
        words.reveal({ side, index });
        heat.reveal();
      });
      bar.style.width = `${(100 * weight) / Math.max(rows[0].weight, 0.2)}%`;
      share.textContent = percent(weight);
      item.append(go, bar, share);
      return item;
    }),
  );
};

// Which of several equal words it is: its place in the text.
const place = (index) => Object.assign(document.createElement("small"), { textContent: ` ${index + 1}` });

const announce = () => {
  const word = chosen();
  const heard = strongest(word, 3).map(({ index, weight }) => `${map[other(word.side)][index][0]} ${percent(weight)}`);
  said.textContent = `${at("reading-title").textContent}: ${heard.join(", ") || "nothing"}`;
};

const kindOf = () => kinds.get(state.kind);
// Choose another kind, layer or head, and show it.
const go = async (change) => {
  const newKind = change.kind !== undefined && change.kind !== state.kind;
  Object.assign(state, change);
  const kind = kindOf();
  if (!kind.layers.includes(state.layer)) state.layer = kind.layers[kind.layers.length - 1];
  if (kind.heads.length === 1) state.head = kind.heads[0];
  if (state.head !== null && !kind.maps.has(`${state.layer} ${state.head}`)) state.head = headsOf(kind, state.layer)[0].head;
  document.documentElement.dataset.kind = state.kind;
  pressed(at("kinds"), (button) => button.dataset.kind === state.kind);
  at("meaning").textContent = kind.meaning;
  if (newKind || !map) {
    heat.recolour();
    heads.fill(kind);
  }
  heads.select(state.layer, state.head);
  const asked = { ...state };
  const next = await look(state.kind, state.layer, state.head);
  if (asked.kind !== state.kind || asked.layer !== state.layer || asked.head !== state.head) return;
  if (!map || next.queries !== map.queries || next.keys !== map.keys) {
    state.hover = null;
    state.pinned = !map && data.query !== null ? { side: "queries", index: data.query } : wholeOf(next);
  }
  map = next;
  at("here").textContent = nameOf(kind, state.layer, state.head);
  const spread = spreadOf(map);
  at("spread").textContent = `A ${nounOf(map, "queries")} here spreads its look over ${spread.toFixed(spread < 9.95 ? 1 : 0)} of ${map.keys.length} ${manyOf(map, "keys")} on average.`;
  said.textContent = `${kind.title}, ${nameOf(kind, state.layer, state.head)}`;
  await vectors.show(map);
  show();
};

const show = () => {
  const isPicture = arePatches(map, "keys");
  const view = state.view ?? (isPicture || Math.max(map.queries.length, map.keys.length) > 90 ? "text" : "lines");
  at("running").textContent = isPicture ? "Picture" : "Text";
  pressed(at("views"), (button) => button.dataset.view === view);
  words.show(map, view);
  heat.show(map);
  mark();
};

const otherView = () => {
  state.view = at("views").querySelector('[aria-pressed="true"]').dataset.view === "lines" ? "text" : "lines";
  show();
};

const theme = (name) => {
  document.documentElement.dataset.theme = name;
  heat.recolour();
  if (map) {
    heads.redraw();
    show();
  }
};

const moveBy = (name, step) => {
  const kind = kindOf();
  const choices = name === "layer" ? kind.layers : kind.heads.length > 1 ? [...headsOf(kind, state.layer).map((m) => m.head), null] : kind.heads;
  const to = choices.indexOf(state[name]) + step;
  if (to >= 0 && to < choices.length) go({ [name]: choices[to] });
};

// Keep a word and bring it into view.
const settle = (word, takeFocus = false) => {
  state.hover = null;
  choose.pin(word, true);
  words.reveal(word, takeFocus);
  heat.reveal();
};

const moveWord = (step, takeFocus = false) => {
  const from = chosen() ?? { side: "queries", index: step > 0 ? -1 : map.queries.length };
  const index = Math.min(map[from.side].length - 1, Math.max(0, from.index + step));
  settle({ side: from.side, index }, takeFocus);
};

const otherSide = () => {
  const word = chosen();
  if (!word) return moveWord(1);
  const side = other(word.side);
  const index = word.across ?? (map.queries === map.keys ? word.index : (strongest(word, 1)[0]?.index ?? 0));
  settle({ side, index });
};

const find = (next) => {
  const wanted = at("find").value.trim().toLocaleLowerCase();
  const sides = map.queries === map.keys ? [state.pinned?.side ?? "queries"] : ["queries", "keys"];
  const isHit = ([label]) => label.toLocaleLowerCase().includes(wanted);
  const hits = wanted ? sides.flatMap((side) => map[side].flatMap((word, index) => (isHit(word) ? [{ side, index }] : []))) : [];
  words.found(hits);
  at("find").classList.toggle("none", Boolean(wanted) && !hits.length);
  if (!hits.length) return;
  const order = ({ side, index }) => sides.indexOf(side) * map.queries.length + index;
  const from = state.pinned ? order(state.pinned) : -1;
  settle(hits.find((hit) => (next ? order(hit) > from : order(hit) >= from)) ?? hits[0]);
};

const meanAndBack = () => {
  if (state.head === null) return go({ head: headBefore ?? headsOf(kindOf(), state.layer)[0].head });
  if (kindOf().heads.length === 1) return null;
  headBefore = state.head;
  return go({ head: null });
};

const letGo = () => {
  state.hover = state.pinned = null;
  mark();
};

const KEYS = {
  ArrowLeft: () => moveBy("head", -1),
  ArrowRight: () => moveBy("head", 1),
  ArrowUp: () => moveBy("layer", -1),
  ArrowDown: () => moveBy("layer", 1),
  j: () => moveWord(1),
  k: () => moveWord(-1),
  s: otherSide,
  m: meanAndBack,
  v: otherView,
  t: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  "/": () => at("find").focus(),
  "?": () => at("keys").showModal(),
  "+": () => heat.zoom(1.35),
  "=": () => heat.zoom(1.35),
  "-": () => heat.zoom(1 / 1.35),
  0: () => heat.zoom(0),
  Escape: letGo,
};
data.kinds.slice(0, 9).forEach((kind, i) => (KEYS[i + 1] = () => go({ kind: kind.name })));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open || !map) return;
  if (event.target === at("find")) {
    if (event.key === "Enter") find(true);
    if (event.key === "Escape") at("find").blur();
    return;
  }
  const inWords = event.target.classList?.contains("word");
  if (inWords && event.key.startsWith("Arrow")) moveWord(stepFrom(event.target, event.key), true);
  else if (Object.hasOwn(KEYS, event.key)) KEYS[event.key]();
  else return;
  event.preventDefault();
});

at("title").textContent = data.title;
at("notes").textContent = data.notes.length ? `Note: ${data.notes.join("; ")}.` : "";
for (const kind of data.kinds) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.kind = kind.name;
  button.textContent = kind.title;
  button.addEventListener("click", () => go({ kind: kind.name }));
  at("kinds").append(button);
}
at("views").addEventListener("click", ({ target }) => target.dataset.view && target.getAttribute("aria-pressed") === "false" && otherView());
at("find").addEventListener("input", () => find(false));
for (const [id, key] of [["theme", "t"], ["help", "?"], ["smaller", "-"], ["fit", "0"], ["larger", "+"]]) {
  at(id).addEventListener("click", () => KEYS[key]());
}
const night = matchMedia("(prefers-color-scheme: dark)");
night.addEventListener("change", () => theme(night.matches ? "dark" : "light"));
theme(night.matches ? "dark" : "light");
if (typeof DecompressionStream === "undefined") at("meaning").textContent = "This browser is too old to unpack the data of this page: please open it in a newer one.";
else {
  const first = kindOf();
  const usual = { layer: first.layers[first.layers.length - 1], head: first.heads.length > 1 ? null : first.heads[0] };
  go(data.opens ?? usual);
}
