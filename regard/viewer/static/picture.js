// The image that was read.  Its patches are the words of a list, each a square piece of the picture, lit by its weight.
const LARGEST = 560; // CSS pixels of its longer side
const FADED = 0.6; // how much darker a patch is that nobody looks at; pictured.py says the same, and ...
const TINTED = 0.5; // ... of the hue in the patch that is looked at most

const arePatches = (map, side) => map.kind.patches.includes(side);
const nounOf = (map, side) => (arePatches(map, side) ? "patch" : "word");
const manyOf = (map, side) => (arePatches(map, side) ? (data.image.class_row ? "patches and the class row" : "patches") : "words");

// The word that stands for the whole image, if there is one: what is shown before a patch is chosen.
const wholeOf = (map) => (arePatches(map, "queries") && data.image.class_row ? { side: "queries", index: 0 } : null);

// What looks and is looked at on the image, as a small map of its own: patches downwards and across.
const onImage = (map) => {
  const weights = weightsOfWord(map, wholeOf(map)).slice(data.image.class_row ? 1 : 0);
  const top = weights.reduce((most, weight) => Math.max(most, weight), 0) || 1;
  return { queries: Array(data.image.rows), keys: Array(data.image.columns), weights, top };
};

const layPatches = (list) => {
  const { columns, rows, png } = data.image;
  list.style.setProperty("--picture", `url("data:image/png;base64,${png}")`);
  list.style.setProperty("--columns", columns);
  list.style.setProperty("--rows", rows);
  fitPatches(list);
};

// Whole pixels, so that no seams are seen between the pieces.
const fitPatches = (list) => {
  const { columns, rows } = data.image;
  const size = Math.floor(Math.min(list.parentElement.clientWidth / columns, LARGEST / Math.max(columns, rows)));
  list.style.setProperty("--size", `${Math.max(3, size)}px`);
};

// One of the list's words: the class row is a word above the picture.
const makePatch = (word, index) => {
  const place = index - (data.image.class_row ? 1 : 0);
  if (place < 0) return word.classList.add("whole");
  word.classList.add("patch");
  word.setAttribute("aria-label", `patch ${word.textContent}`);
  word.textContent = "";
  word.style.setProperty("--x", -(place % data.image.columns));
  word.style.setProperty("--y", -Math.floor(place / data.image.columns));
};

// Dark where the share of the strongest is 0, and tinted where it is 1: both layers as one color.
const tintOf = (share, hue) => {
  const tint = TINTED * share;
  const cover = 1 - (1 - FADED * (1 - share)) * (1 - tint);
  return `rgb(${hue.map((channel) => Math.round((channel * tint) / (cover || 1))).join(" ")} / ${cover.toFixed(3)})`;
};

const lightPatches = (patches, weights) => {
  const hue = hexOf("--lit");
  const ofPatches = weights.slice(weights.length - patches.length);
  const top = ofPatches.reduce((most, weight) => Math.max(most, weight), 0) || 1;
  patches.forEach((patch, i) => patch.style.setProperty("--tint", tintOf(ofPatches[i] / top, hue)));
};

// How far an arrow key goes from a word of a list: on the picture, up and down are a row.
const stepFrom = (word, key) => {
  const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[key];
  if (!word.classList.contains("patch") || key === "ArrowLeft" || key === "ArrowRight") return step;
  const to = +word.dataset.index + step * data.image.columns;
  const isOutside = to >= word.parentElement.children.length || (to < 0 && !data.image.class_row);
  return isOutside ? 0 : step * data.image.columns;
};
