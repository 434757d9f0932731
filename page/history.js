// The timeline of an order on AWS, where there is no journal. It comes from the order's own log, at each refresh.

import { button, el, empty, stateChip, timeOf } from "./ui.js";

/** Returns {element, state, update}, which show the order's log as it was at the last refresh. */
export function history({ look }) {
  const element = el("div", { class: "card" });
  const update = ({ timeline }) => element.replaceChildren(timeline.length ? list(timeline) : nothing());
  return { element, state: button("Refresh", look, { kind: "small quiet" }), update };
}

const list = (timeline) => el("ol", { class: "plain-list" }, timeline.map(({ at, event, status }) =>
  el("li", { class: "row tight" }, timeOf(at), el("span", null, inWords(event)), stateChip(status))));

const nothing = () => empty("No history yet", "Changes of the order appear here shortly after they happen.");

/** Returns an event's name in words: "Order partly shipped" for OrderPartlyShipped. */
function inWords(event) {
  const text = event.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
