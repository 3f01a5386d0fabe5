// Type a text, and see its attention: the page comes from the server and is shown in a frame that can reach nothing.
"use strict";
const form = document.getElementById("ask");
const said = document.getElementById("said");
const seen = document.getElementById("seen");
const GREETING = said.textContent;
let asked = 0;

const fillRuns = async () => {
  try {
    const { data } = JSON.parse(await ask("/v1/models"));
    const options = data.map(({ id, reads }) =>
      Object.assign(document.createElement("option"), { value: id, textContent: reads === "text" ? id : `${id} (reads no text)`, disabled: reads !== "text" }),
    );
    form.elements.run.replaceChildren(...options);
    if (!options.every(({ disabled }) => disabled)) form.elements.run.value = options.find(({ disabled }) => !disabled).value;
    said.textContent = GREETING;
  } catch (error) {
    said.textContent = error.message;
  }
};

const look = async () => {
  const mine = ++asked;
  const input = form.elements.text.value;
  if (!input) return;
  said.textContent = "…";
  const target = form.elements.target.value || null;
  try {
    const page = await ask("/v1/attention", { model: form.elements.run.value, input, target, format: "page" });
    if (mine !== asked) return;
    seen.srcdoc = page;
    seen.hidden = false;
    said.textContent = "";
  } catch (error) {
    if (mine !== asked) return;
    seen.hidden = true; // what it shows belongs to another text
    said.textContent = error.message;
  }
};

form.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});
let pause = 0;
form.elements.text.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(look, 600);
});
form.elements.run.addEventListener("change", look);
keyField.addEventListener("change", fillRuns);
fillRuns();
