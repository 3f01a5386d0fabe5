// /openapi.json as a page: every route with the schema of its body, and a box to try it.
"use strict";
const said = document.getElementById("said");
const routes = document.getElementById("routes");
const made = (tag, ...parts) => {
  const element = document.createElement(tag);
  element.append(...parts);
  return element;
};

// A schema with everything that it points to.
const resolved = (schema, all, depth = 0) => {
  if (Array.isArray(schema)) return schema.map((part) => resolved(part, all, depth));
  if (schema === null || typeof schema !== "object" || depth > 12) return schema;
  if (schema.$ref) return resolved(all[schema.$ref.split("/").pop()], all, depth + 1);
  return Object.fromEntries(Object.entries(schema).map(([name, part]) => [name, resolved(part, all, depth + 1)]));
};

const example = (schema) => {
  const required = schema.required ?? Object.keys(schema.properties ?? {}).slice(0, 1);
  return Object.fromEntries(required.map((name) => [name, ""]));
};

const firstSentence = ({ summary, description }) => (description ?? summary ?? "").replace(/\s+/g, " ").split(/(?<=[.]) /)[0];

const routeOf = (path, method, about, schemas) => {
  const heading = made("summary", made("b", method.toUpperCase()), ` ${path} `, made("small", firstSentence(about)));
  const details = made("details", heading, made("p", about.description ?? ""));
  const schema = resolved(about.requestBody?.content?.["application/json"]?.schema, schemas);
  const answer = made("pre");
  const box = made("textarea");
  box.setAttribute("aria-label", `Body of ${path}`);
  if (schema) {
    box.value = JSON.stringify(example(schema), null, 2);
    details.append(made("pre", JSON.stringify(schema.properties ?? schema, null, 2)), box);
  }
  const button = made("button", "Try it");
  button.addEventListener("click", async () => {
    answer.textContent = "…";
    try {
      answer.textContent = await ask(path, schema ? JSON.parse(box.value) : undefined);
    } catch (error) {
      answer.textContent = error.message;
    }
  });
  details.append(made("p", button), answer);
  return details;
};

const fill = async () => {
  try {
    const { paths, components } = JSON.parse(await ask("/openapi.json"));
    const rows = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, about]) => routeOf(path, method, about, components?.schemas ?? {})));
    routes.replaceChildren(...rows);
    said.textContent = "";
  } catch (error) {
    said.textContent = error.message;
  }
};
keyField.addEventListener("change", fill);
fill();
