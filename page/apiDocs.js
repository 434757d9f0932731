// The API documentation: Swagger UI with the OpenAPI document of the API, an example of each response, and the user's
// token. The address may end with the slug of a problem (an error), because each error response links to it.

import { get, reached } from "./api.js";
import { account, arrive, person, token } from "./people.js";
import { settings } from "./settings.js";
import { el, failure, table, row } from "./ui.js";

const main = document.getElementById("main");
const server = new URL(settings.api || "/", location.href).href.replace(/\/$/, "");
const isMethod = (name) => ["get", "put", "post", "patch", "delete"].includes(name);
let ui;
let shown; // the token that Swagger UI shows as entered

/** Adds the server and examples of responses to the OpenAPI document, which would be too large for the API with them. */
function completed(document, { responses, problems }) {
  document.servers = [{ url: server, description: settings.shop }];
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item).filter(([name]) => isMethod(name))) {
      const example = responses[`${method.toUpperCase()} ${path}`];
      for (const [status, response] of Object.entries(operation.responses)) {
        for (const content of Object.values(response.content ?? {})) {
          if (status.startsWith("2") && example) content.example = example.body;
          if (status >= "4") content.examples = problemExamples(response.description, problems);
        }
      }
    }
  }
  return document;
}

const slugsIn = (description) => [...description.matchAll(/`([a-z-]+)`: /g)].map(([, slug]) => slug);

function problemExamples(description, problems) {
  const known = slugsIn(description).filter((slug) => problems[slug]);
  return Object.fromEntries(known.map((slug) => [slug, { value: { type: `/docs#${slug}`, ...problems[slug], detail: "…", instance: "…" } }]));
}

/** Sends the current token of the acting user with each request, unless the user has entered another token. */
async function authorized(request) {
  const isOurs = [undefined, `Bearer ${shown}`].includes(request.headers.Authorization);
  if (request.url.startsWith(server) && isOurs && person()) {
    request.headers.Authorization = `Bearer ${await token(person())}`;
  }
  return request;
}

// Problems -------------------------------------------------------------------------------------------------------------
/** The operations that may answer with a problem. */
function operationsWith(slug, document) {
  const all = Object.entries(document.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({ method, path, operation })));
  return all.filter(({ operation }) => Object.values(operation.responses).some(({ description }) => slugsIn(description).includes(slug)));
}

function explained(slug, { status, title }, document) {
  const operations = operationsWith(slug, document);
  const all = operations.length === Object.values(document.paths).flatMap(Object.keys).length;
  const links = operations.map(({ method, path, operation }) =>
    el("li", null, el("a", { href: `#/${operation.tags[0]}/${operation.operationId}` }, el("code", null, `${method.toUpperCase()} ${path}`))));
  const where = all ? el("p", null, "All operations may answer with it.") : el("details", null, el("summary", null, `${links.length} operations may answer with it`), el("ul", null, links));
  return [el("h2", null, el("code", null, slug), ` – ${title}`), el("p", null, `HTTP status ${status}. The field “detail” of the response says why.`), operations.length > 0 && where].filter(Boolean);
}

function problemSection({ problems }, document) {
  const answer = el("div", { class: "api-problem", id: "problem", role: "status" });
  const show = () => {
    const slug = location.hash.replace(/^#\/?/, ""); // Swagger UI adds the slash
    answer.replaceChildren(...(Object.hasOwn(problems, slug) ? explained(slug, problems[slug], document) : []));
    answer.hidden = !answer.hasChildNodes();
  };
  addEventListener("hashchange", () => {
    show();
    if (location.hash.startsWith("#/")) ui?.layoutActions.parseDeepLinkHash(location.hash); // Swagger UI reads it only once
  });
  show();
  const rows = Object.entries(problems).map(([slug, { status, title }]) => row(el("a", { href: `#${slug}` }, el("code", null, slug)), { number: status }, title));
  const list = el("details", { class: "api-problems" }, el("summary", null, `All ${rows.length} problems`), table("Problems", ["Type", { text: "Status", number: true }, "Title"], rows));
  return [answer, list];
}

// What Swagger UI lacks for screen readers and the keyboard -----------------------------------------------------------
/** Makes text of Swagger UI's links inside of buttons, because each button leads to the same place as its link. */
const withoutNestedLinks = () => ({ wrapComponents: { DeepLink: (_, { React }) => ({ text }) => React.createElement("span", null, text) } });

function nameControls(place) {
  for (const control of place.querySelectorAll(":is(input, select, textarea):not([aria-label])")) control.setAttribute("aria-label", nameOf(control));
  for (const example of place.querySelectorAll("pre:not([tabindex])")) example.setAttribute("tabindex", "0"); // it may scroll
}

function nameOf(control) {
  const parameter = control.closest("[data-param-name]")?.dataset.paramName;
  if (parameter) return parameter;
  if (control.id === "servers") return "Server";
  if (control.matches("textarea")) return "Request body";
  return control.closest(".content-type-wrapper, .response-control-media-type") ? "Media type" : control.placeholder || control.labels?.[0]?.textContent || "Example";
}

// The page -------------------------------------------------------------------------------------------------------------
async function authorizeChosenUser() {
  if (!person()) return;
  shown = await token(person());
  ui.preauthorizeApiKey("token", shown);
}

async function show() {
  const [document_, examples] = await Promise.all([get("/api/openapi.json"), fetch("apiExamples.json").then((found) => found.json())]);
  const lead = settings.laptop ? "“Try it out” sends real requests to this shop, as the user chosen above." : "“Try it out” sends real requests to this shop. Sign in above, or enter a token under “Authorize”.";
  const place = el("div", { id: "swagger" });
  const link = el("a", { href: reached("/api/openapi.json") }, "openapi.json");
  const head = el("div", { class: "api-head" }, el("h1", null, "API"), el("p", { class: "lead" }, document_.info.description.replaceAll("`", "")), el("p", { class: "lead" }, lead), el("p", { class: "lead" }, "For generators of clients: ", link));
  main.replaceChildren(head, ...problemSection(examples, document_), place);
  document.title = `API – ${settings.shop}`;
  new MutationObserver(() => nameControls(place)).observe(place, { childList: true, subtree: true });
  ui = SwaggerUIBundle({
    domNode: place,
    spec: completed(document_, examples),
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    syntaxHighlight: false, // its colours have too little contrast
    defaultModelsExpandDepth: -1,
    requestInterceptor: authorized,
    onComplete: () => authorizeChosenUser().catch(() => {}),
    validatorUrl: null,
    plugins: [withoutNestedLinks],
  });
}

async function start() {
  await arrive();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", setTheme);
  setTheme();
  document.getElementById("shop").textContent = settings.shop;
  document.getElementById("account").append(account(() => ui && authorizeChosenUser()));
  await show().catch((error) => main.replaceChildren(failure(error, () => location.reload())));
}

start();
