// Opens the view that the address names, and keeps the frame around it: user, navigation and connection state.

import { reach } from "./api.js";
import * as board from "./board.js";
import * as insight from "./insight.js";
import * as patterns from "./patterns.js";
import { account, arrive, person, staffMember } from "./people.js";
import { isHere, settings } from "./settings.js";
import * as shop from "./shop.js";
import * as signInPrompt from "./signInPrompt.js";
import * as story from "./story.js";
import * as stream from "./stream.js";
import { el } from "./ui.js";
import { labels } from "./labels.js";

/** Each view: its label in the navigation, if it has one; the groups that may see it; whether only a laptop has it. */
const VIEWS = {
  shop: { title: "Shop", show: shop.show },
  orders: { show: story.show, who: person },
  board: { title: "Board", show: board.show, who: staffMember },
  stream: { title: "Stream", show: stream.show, laptop: true },
  patterns: { title: "Patterns", show: patterns.show, laptop: true },
  insight: { title: "Insight", show: insight.show, who: staffMember },
};

const main = document.getElementById("main");
const views = document.getElementById("views");
let open = new AbortController();
let opened = 0;

/** The view's name, the rest of the path, and its query. */
function address() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const [name, rest] = path.split("/", 2);
  const view = Object.hasOwn(VIEWS, name) && isHere(VIEWS[name]) && (name !== "orders" || rest) ? name : "shop";
  return { view, id: decoded(rest ?? ""), query: new URLSearchParams(query) };
}

/** The address may be typed by the user, so its encoding may be invalid. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const mayBeSeen = ({ who = () => true }) => Boolean(who());

/** `keepFocus`: keep the focus where it is, outside of the view. */
function show({ keepFocus = false } = {}) {
  open.abort(new DOMException("another view was opened", "AbortError"));
  open = new AbortController();
  const { view, id, query } = address();
  offerViews(view);
  const place = el("div", { class: `view ${view}-view` });
  main.replaceChildren(place);
  const shown = mayBeSeen(VIEWS[view]) ? VIEWS[view] : signInPrompt;
  const heading = shown.show(place, { id, query, signal: open.signal, again: show });
  document.title = `${heading.textContent} – ${settings.shop}`;
  heading.tabIndex = -1;
  if (opened > 0 && !keepFocus) {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  opened += 1;
}

function offerViews(current) {
  const there = Object.entries(VIEWS).filter(([, view]) => view.title && isHere(view) && mayBeSeen(view));
  const links = there.map(([name, { title }]) => el("a", { href: `#/${name}`, "aria-current": name === current && "page" }, title));
  views.replaceChildren(...links);
}

async function start() {
  await arrive();
  document.getElementById("shop").textContent = settings.shop;
  document.getElementById("foot").textContent = labels.foot;
  document.getElementById("account").append(account(show));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the view's
    main.focus();
  });
  reach.addEventListener("change", () => {
    document.getElementById("unreachable").textContent = reach.answers ? "" : "The shop does not answer. Retrying …";
  });
  addEventListener("hashchange", () => location.hash.startsWith("#/") && show());
  show();
}

start();
