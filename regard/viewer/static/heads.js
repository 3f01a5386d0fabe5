// The grid of layers and heads: a small picture of each, drawn when the browser has nothing better to do.
const nameOf = (kind, layer, head) =>
  kind.has_heads ? `Layer ${layer}, ${head === null ? "mean of heads" : `head ${head}`}` : kind.title;
const idle = () => new Promise((go) => (window.requestIdleCallback ?? setTimeout)(go));

const Heads = (go, thumbnail) => {
  const grid = document.getElementById("grid");
  let kind = null;
  let pictures = []; // canvas, layer, head
  let turn = 0;

  const label = (text, className = "") => Object.assign(document.createElement("span"), { textContent: text, className });

  const picture = (layer, head) => {
    const button = document.createElement("button");
    const canvas = document.createElement("canvas");
    button.type = "button";
    button.title = nameOf(kind, layer, head);
    button.setAttribute("aria-label", nameOf(kind, layer, head));
    Object.assign(button.dataset, { layer, head: head ?? "mean" });
    button.addEventListener("click", () => go({ layer, head }));
    button.append(canvas);
    pictures.push([canvas, layer, head]);
    return button;
  };

  const fill = (newKind) => {
    kind = newKind;
    pictures = [];
    const heads = kind.heads.length > 1 ? [...kind.heads, null] : kind.heads;
    const side = heads.length > 14 ? 24 : heads.length > 9 ? 32 : heads.length > 5 ? 40 : 52;
    grid.style.gridTemplateColumns = `auto repeat(${heads.length}, minmax(13px, ${side}px))`; // narrower before it scrolls
    const cells = [label(""), ...heads.map((head) => label(head ?? (side < 40 ? "all" : "mean")))];
    for (const layer of kind.layers) {
      cells.push(label(layer, "row"));
      for (const head of heads) cells.push(head === null || kind.maps.has(`${layer} ${head}`) ? picture(layer, head) : label(""));
    }
    grid.replaceChildren(...cells);
    redraw();
  };

  const redraw = async () => {
    const mine = ++turn; // a newer call takes over
    for (const [canvas, layer, head] of pictures) {
      await idle();
      if (mine !== turn) return;
      const whole = await look(kind.name, layer, head);
      if (mine !== turn) return;
      const map = arePatches(whole, "keys") ? onImage(whole) : whole;
      Object.assign(canvas, { width: Math.min(64, map.keys.length), height: Math.min(64, map.queries.length) });
      canvas.getContext("2d").putImageData(thumbnail(map, canvas.width, canvas.height), 0, 0);
    }
  };

  const select = (layer, head) => {
    const focused = grid.contains(document.activeElement);
    for (const button of grid.querySelectorAll("button")) {
      const chosen = button.dataset.layer === String(layer) && button.dataset.head === String(head ?? "mean");
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      if (!chosen) continue;
      button.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (focused) button.focus();
    }
  };

  return { fill, select, redraw };
};
