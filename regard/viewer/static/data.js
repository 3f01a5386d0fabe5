// The data of the page: maps are unpacked only when they are looked at, and a few are kept.
const data = JSON.parse(document.getElementById("data").textContent);
const KEPT = 64_000_000; // cells, that is 256 MB

const bytesOf = async (packed) => {
  const raw = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
};

const unpackWeights = async (packed) => {
  const bytes = await bytesOf(packed);
  const steps = data.levels > 255 ? new Uint16Array(bytes) : new Uint8Array(bytes);
  const weights = new Float32Array(steps.length);
  for (let i = 0; i < steps.length; i++) weights[i] = (steps[i] / data.levels) ** 2;
  return weights;
};

const unpackVectors = async ({ width, scale, data: packed }) => ({
  width,
  rows: Float32Array.from(new Int16Array(await bytesOf(packed)), (x) => x * scale),
});

const kinds = new Map(data.kinds.map((kind) => [kind.name, { ...kind, maps: new Map(), layers: [], heads: [] }]));
for (const map of data.maps) kinds.get(map.kind).maps.set(`${map.layer} ${map.head}`, map);
for (const kind of kinds.values()) {
  const sorted = (name) => [...new Set([...kind.maps.values()].map((map) => map[name]))].sort((a, b) => a - b);
  kind.layers = sorted("layer");
  kind.heads = sorted("head");
}

const kept = new Map(); // the promise of a map's weights, the least used first
let cells = 0;

const remember = (name, size, make) => {
  if (kept.has(name)) {
    const entry = kept.get(name);
    kept.delete(name);
    kept.set(name, entry);
    return entry.weights;
  }
  cells += size;
  kept.set(name, { weights: make(), size });
  for (const [old, entry] of kept) {
    if (cells <= KEPT || old === name) break;
    kept.delete(old);
    cells -= entry.size;
  }
  return kept.get(name).weights;
};

const sizeOf = (map) => data.texts[map.queries].length * data.texts[map.keys].length;

const weightsOf = (map) => remember(`${map.kind} ${map.layer} ${map.head}`, sizeOf(map), () => unpackWeights(map.weights));

const headsOf = (kind, layer) => kind.heads.map((head) => kind.maps.get(`${layer} ${head}`)).filter(Boolean);

// One head, or the mean of a layer's heads (head === null).
const look = async (kindName, layer, head) => {
  const kind = kinds.get(kindName);
  const maps = head === null ? headsOf(kind, layer) : [kind.maps.get(`${layer} ${head}`)];
  const queries = data.texts[maps[0].queries];
  const keys = data.texts[maps[0].keys];
  let weights;
  if (maps.length === 1) weights = await weightsOf(maps[0]);
  else
    weights = await remember(`${kindName} ${layer} mean`, sizeOf(maps[0]), async () => {
      const mean = new Float32Array(sizeOf(maps[0]));
      for (const map of maps) {
        const one = await weightsOf(map);
        for (let i = 0; i < mean.length; i++) mean[i] += one[i] / maps.length;
      }
      return mean;
    });
  let top = 0;
  for (const weight of weights) if (weight > top) top = weight;
  return { kind, layer, head, queries, keys, weights, top: top || 1, packed: maps.length === 1 ? maps[0].vectors : null };
};

// On how many words a query's attention rests, on average: the exponential of its entropy.
const spreadOf = ({ queries, keys, weights }) => {
  let sum = 0;
  for (let q = 0; q < queries.length; q++) {
    let entropy = 0;
    for (let k = 0; k < keys.length; k++) {
      const w = weights[q * keys.length + k];
      if (w > 0) entropy -= w * Math.log(w);
    }
    sum += Math.exp(entropy);
  }
  return sum / queries.length;
};

// The weights that belong to one word: a row of the map for a query, a column for a key; null: the mean of all rows.
const weightsOfWord = (map, word) => {
  if (!word) return (map.mean ??= meanOf(map));
  const { side, index } = word;
  const K = map.keys.length;
  if (side === "queries") return map.weights.subarray(index * K, (index + 1) * K);
  return Float32Array.from(map.queries, (_, q) => map.weights[q * K + index]);
};

const meanOf = ({ queries, keys, weights }) => {
  const mean = new Float32Array(keys.length);
  weights.forEach((weight, i) => (mean[i % keys.length] += weight / queries.length));
  return mean;
};

const percent = (weight) => {
  const share = weight * 100;
  return `${share >= 9.95 || share === 0 ? share.toFixed(0) : share >= 0.095 ? share.toFixed(1) : "< 0.1"} %`;
};
const other = (side) => (side === "queries" ? "keys" : "queries");
