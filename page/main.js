// Opens the view that the address names. Keeps the frame around the view: user, navigation and connection state.

import { reach, Unanswered } from "./api.js";
import { account, arrive, languageOf, orderLanguage, person, staffMember } from "./people.js";
import { isHere, settings } from "./settings.js";
import { el, failure, loading, scrollToCurrent } from "./ui.js";
import { labels, useLanguage } from "./labels.js";

/**
 * The views, in the order of the navigation. The page starts with the first view that exists here. `title`: the label in
 * the navigation, if any. `load`, `styles`: the module and the stylesheets, which load when the view first opens. `who`:
 * returns a user if the current user may see the view, or its part with an id. `language`: returns the language of the view
 * if it is not always English. `href`: a separate document.
 */
const VIEWS = {
  flow: { title: "Flow", load: () => import("./flow.js"), styles: ["flow.css"], laptop: true },
  shop: { title: "Shop", load: () => import("./shop.js"), styles: ["shop.css"] },
  orders: { load: () => import("./order.js"), styles: ["orders.css", "trace.css"], who: person, language: orderLanguage },
  guest: { load: () => import("./guest.js"), styles: ["orders.css", "trace.css"], language: (query) => languageOf(query.get("language")) },
  board: { title: "Board", load: () => import("./board.js"), styles: ["board.css"], who: staffMember },
  records: { title: "Records", load: () => import("./records.js"), styles: ["board.css"], who: staffMember },
  customers: { title: "Customers", load: () => import("./customers.js"), styles: ["customers.css"], who: (id) => (id ? person() : staffMember()) },
  table: { title: "Table", load: () => import("./table.js"), styles: ["table.css"], laptop: true },
  insight: { title: "Insight", load: () => import("./insight.js"), styles: ["insight.css"], who: staffMember },
  api: { title: "API", href: "docs.html" },
  docs: { title: "Docs", href: "docs/", laptop: true },
};

const main = document.getElementById("main");
const views = document.getElementById("views");
const SLOW_MS = 150;
let open = new AbortController();
let opened = 0;

/** Returns the parts of the address: the view's name, the rest of the path, and the query. */
function address() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const [name, rest] = path.split("/", 2);
  const view = Object.hasOwn(VIEWS, name) && isHere(VIEWS[name]) && VIEWS[name].load && (!["orders", "guest"].includes(name) || rest) ? name : firstView();
  return { view, id: decoded(rest ?? ""), query: new URLSearchParams(query) };
}

const firstView = () => Object.keys(VIEWS).find((name) => isHere(VIEWS[name]));

/** Decodes a part of the address. The encoding may be invalid, because a user can type the address. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const mayBeSeen = ({ who = () => true }, id = "") => Boolean(who(id));

/** Shows the view of the address. `keepFocus`: whether the focus stays where it is, outside of the view. */
async function show({ keepFocus = false } = {}) {
  open.abort(new DOMException("another view was opened", "AbortError"));
  open = new AbortController();
  for (const box of document.querySelectorAll("dialog[open]")) box.close(); // it belongs to the former view
  const { signal } = open;
  const { view, id, query } = address();
  offerViews(view);
  const place = el("div", { class: `view ${view}-view` });
  const started = setTimeout(() => main.replaceChildren(loading("Loading the view …")), SLOW_MS);
  const shown = await moduleOf(VIEWS[view], id, query).catch((error) => ({ show: () => unloaded(place, error) }));
  clearTimeout(started);
  if (signal.aborted) return;
  main.replaceChildren(place);
  const heading = shown.show(place, { id, query, signal, again: show });
  document.title = `${heading.textContent} – ${settings.shop}`;
  heading.tabIndex = -1;
  if (opened > 0 && !keepFocus) {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  opened += 1;
}

async function moduleOf(view, id, query) {
  if (!mayBeSeen(view, id)) return import("./signInPrompt.js");
  const language = (async () => useLanguage(await (view.language?.(query) ?? "en")))();
  const [shown] = await Promise.all([view.load(), ...view.styles.map(applyStyles), language]);
  return shown;
}

const applied = new Map();

/** Adds a stylesheet once, and waits until it has loaded, so that no view appears without its styles. */
function applyStyles(href) {
  if (!applied.has(href)) {
    applied.set(href, new Promise((resolve, reject) => {
      const failed = () => {
        applied.delete(href);
        reject(new Error(`${href} did not load`));
      };
      document.head.append(el("link", { rel: "stylesheet", href, onload: resolve, onerror: failed }));
    }));
  }
  return applied.get(href);
}

/** Shows that a module did not load. The button reloads the page, because a browser may remember the failed load. */
function unloaded(place, error) {
  const heading = el("h1", null, settings.shop);
  place.append(heading, failure(new Unanswered(labels.unanswered, { cause: error }), () => location.reload()));
  return heading;
}

function offerViews(current) {
  const there = Object.entries(VIEWS).filter(([, view]) => view.title && isHere(view) && mayBeSeen(view));
  const links = there.map(([name, { title, href = `#/${name}` }]) => el("a", { href, "aria-current": name === current && "page" }, title));
  views.replaceChildren(...links);
  scrollToCurrent(views);
}

async function start() {
  await arrive();
  document.getElementById("shop").textContent = settings.shop;
  document.getElementById("foot").textContent = labels.foot;
  document.getElementById("account").append(account(show));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash of the address names the view, so do not change it
    main.focus();
  });
  reach.addEventListener("change", () => {
    document.getElementById("unreachable").textContent = reach.answers ? "" : "The shop does not answer. Retrying …";
  });
  addEventListener("hashchange", () => location.hash.startsWith("#/") && show());
  show();
}

start();
