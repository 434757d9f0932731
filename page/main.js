// Opens the view that the address names, and keeps the frame around it: who you are, where you are, who answers.

import { get, reach } from "./api.js";
import * as board from "./board.js";
import { choose, person } from "./people.js";
import { dialog, el } from "./ui.js";
import { field, form } from "./forms.js";
import { capital } from "./format.js";
import * as insight from "./insight.js";
import * as patterns from "./patterns.js";
import * as shop from "./shop.js";
import * as story from "./story.js";
import * as stream from "./stream.js";

const VIEWS = { shop, orders: story, board, stream, patterns, insight };
const USERS = ["alice", "bob", "staff", "warehouse"];
const SOMEBODY_ELSE = "…";

const main = document.getElementById("main");
const who = document.getElementById("who");
let open = new AbortController();
let opened = 0;

/** The view's name, what stands behind it in the path, and its query. */
function address() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const [view, rest] = path.split("/", 2);
  return { view: Object.hasOwn(VIEWS, view) && (view !== "orders" || rest) ? view : "shop", id: decoded(rest ?? ""), query: new URLSearchParams(query) };
}

/** What a person typed may be no encoding of anything. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  open.abort(new DOMException("another view was opened", "AbortError"));
  open = new AbortController();
  const { view, id, query } = address();
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const place = el("div", { class: `view ${view}-view` });
  main.replaceChildren(place);
  const heading = VIEWS[view].show(place, { id, query, signal: open.signal, again: show });
  document.title = `${heading.textContent} – Orderstream`;
  heading.tabIndex = -1;
  if (opened > 0) heading.focus({ preventScroll: true });
  if (opened > 0) scrollTo(0, 0);
  opened += 1;
}

function offerPeople(users) {
  const names = [...new Set([...users, person()])];
  who.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === person() }, capital(name))));
  who.append(el("option", { value: SOMEBODY_ELSE }, "Somebody else …"));
}

function askName(users) {
  const name = field("Name", "user", { required: true, pattern: "[a-z][a-z0-9]{0,29}", autocomplete: "off", autocapitalize: "none" }, { hint: "Small letters and digits, such as carol." });
  dialog("Who are you?", (box) =>
    form({ class: "stack" }, name, "Be this person", async () => {
      choose(name.control.value);
      box.close();
      offerPeople(users);
      show();
    }),
  );
}

function start() {
  let users = USERS;
  offerPeople(users);
  get("/local/shop").then((found) => offerPeople((users = found.users)));
  who.addEventListener("change", () => {
    if (who.value === SOMEBODY_ELSE) {
      who.value = person();
      askName(users);
      return;
    }
    choose(who.value);
    opened = 0; // the focus stays at the choice
    show();
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the view's
    main.focus();
  });
  reach.addEventListener("change", () => {
    document.getElementById("unreachable").textContent = reach.answers ? "" : "The shop does not answer; trying again …";
  });
  addEventListener("hashchange", () => location.hash.startsWith("#/") && show());
  show();
}

start();
