// The key of this tab, if the server needs one, and how it is sent.
"use strict";
const keyField = document.getElementById("key");
const keyForm = document.getElementById("keys");
keyField.value = sessionStorage.getItem("key") ?? "";
keyForm.hidden = !keyField.value; // it is shown when the server asks for it
keyForm.addEventListener("submit", (event) => event.preventDefault());

const ask = async (path, body) => {
  sessionStorage.setItem("key", keyField.value);
  const headers = keyField.value ? { Authorization: `Bearer ${keyField.value}` } : {};
  const options = { headers };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } });
  const answer = await fetch(path, options);
  const text = await answer.text();
  if (answer.ok) return text;
  if (answer.status === 401) keyForm.hidden = false;
  let message = `the server answers ${answer.status}`;
  try {
    const { error } = JSON.parse(text);
    message = typeof error === "string" ? error : error.message;
  } catch {
    // no JSON: the status has to do
  }
  throw new Error(message);
};
