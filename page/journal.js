// The timeline of an order on a laptop: from the activity log, live.

import { get } from "./api.js";
import { plural } from "./format.js";
import { follow } from "./live.js";
import { Timeline } from "./timeline.js";
import { announce, chip, el, empty, failure } from "./ui.js";

const SETTLED_MS = 400;
const AT_LATEST_MS = 1500;
const SAID_EVERY_MS = 2500;

/** {element, state, shows}: updates itself, and reloads the order when it changed. */
export function journal({ id, signal, look }) {
  const timeline = new Timeline();
  const state = el("p", { class: "live", role: "status" }, "Connecting …");
  read(timeline, { id, signal, state, onNews: settled(look, signal) });
  return { element: timeline.element, state, shows: () => {} };
}

/** The entries so far, and then the new ones. */
async function read(timeline, { id, signal, state, onNews }) {
  const path = `/local/orders/${encodeURIComponent(id)}/story`;
  try {
    for (let after = 0, more = true; more; after = timeline.last) {
      const { entries } = await get(`${path}?after=${after}`, { signal });
      timeline.add(entries);
      more = entries.length >= 500;
    }
  } catch (error) {
    if (!signal.aborted) state.replaceWith(failure(error, () => location.reload()));
    return;
  }
  const nothing = empty("No activity yet", "New activity of this order appears here automatically. The activity log keeps only the newest entries.");
  if (!timeline.last) timeline.element.append(nothing);
  const say = teller();
  follow({
    after: timeline.last, order: id, signal,
    onState: (open) => state.replaceChildren(open ? chip("Live", "good") : chip("Reconnecting …", "waiting")),
    on: (entries) => {
      nothing.remove();
      timeline.add(entries);
      say(entries);
      if (!entries.every(isLook)) onNews();
    },
  });
}

/** A failed request is logged too; a reload because of it would never end. */
const isLook = ({ kind, route = "" }) => kind === "request" && route.startsWith("GET ");

/** Passes new entries to the listener: many at once, and not too often. */
function teller() {
  let unsaid = [];
  return (entries) => {
    if (!unsaid.length) {
      setTimeout(() => {
        announce(`${plural(unsaid.length, "new entry", "new entries")}. Last: ${unsaid.at(-1).text}`);
        unsaid = [];
      }, SAID_EVERY_MS);
    }
    unsaid.push(...entries);
  };
}

/** Calls `run` after a short pause without events, or after a while if events do not stop. */
function settled(run, signal) {
  let timer, since;
  return () => {
    since ??= Date.now();
    clearTimeout(timer);
    timer = setTimeout(() => {
      since = undefined;
      if (!signal.aborted) run();
    }, Math.max(0, Math.min(SETTLED_MS, since + AT_LATEST_MS - Date.now())));
  };
}
