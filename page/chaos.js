// Chaos, on the laptop only: break something on purpose, and watch the shop come back.

import { get, post } from "./api.js";
import { field, form } from "./forms.js";
import { el, storyLink } from "./ui.js";

const SPANS = [["1h", "one hour: unpaid orders lapse"], ["30d", "30 days"], ["90d", "90 days"], ["400d", "400 days: closed orders go into the archive"]];

/** The section, and `update`, which hears how readers and processes stand. */
export function chaosSection({ signal }) {
  const said = el("div", { class: "said", role: "status" });
  const names = { readers: ["copies", "relay"], reactions: ["fulfilment", "notifications", "refunds", "archive"], processes: ["dynamodb", "aws"] };
  const failing = field("Of", "of", {}, { options: [] });
  const reader = field("Reader", "name", {}, { options: [] });
  const process = field("Process", "process", {}, { options: [] });
  const stop = el("input", { type: "hidden", name: "running" });
  const readerForm = switchForm("Stop a reader", [reader, stop], "Stop it", () => ({ switch: "reader", name: reader.control.value, running: stop.value === "true" }), {
    what: "The reader takes nothing more from the stream; everybody else goes on.",
    watch: "Its records wait and its lag grows. Let it run again, and it catches up by itself.",
  });
  let stopped = new Set();

  /** The reader's button does the opposite of what is. */
  const drawReader = () => {
    const isStopped = stopped.has(reader.control.value);
    stop.value = String(isStopped);
    readerForm.querySelector("button[type=submit]").textContent = isStopped ? "Let it run again" : "Stop it";
  };
  reader.control.addEventListener("change", drawReader);

  offer(names);
  get("/local/shop", { signal }).then((shop) => offer(shop), () => {});
  const times = field("Times", "times", { type: "number", min: "1", max: "100", value: "3", required: true });
  const by = field("By", "by", {}, { options: SPANS });
  const switches = [
    switchForm("Fail deliveries", [failing, times], "Let them fail", () => ({ switch: "fail", of: failing.control.value, times: Number(times.control.value) }), {
      what: "The next deliveries of this reader or reaction fail, as if its code broke or a service was away.",
      watch: "Place an order: its story shows each failed attempt, and then the one that works. Nothing is lost or done twice.",
    }),
    switchForm("Poison a record", [], "Write a poisoned record", () => ({ switch: "poison" }), {
      what: "A record is written that no version of the code can read.",
      watch: "Each reader tries it, puts it aside whole, and goes on: it appears under “Put aside” with its reason.",
    }),
    readerForm,
    switchForm("Advance the clock", [by], "Let the time pass", () => ({ switch: "advance", by: by.control.value }), {
      what: "What would end within that time ends now: unpaid orders, old markers, closed orders.",
      watch: "The story of a delivered order goes on into the archive.",
    }),
    switchForm("Kill a process", [process], "Kill it", () => ({ switch: "kill", process: process.control.value }), {
      what: "kill -9, in the middle of whatever it does. It is started again within seconds.",
      watch: "The page says that the shop does not answer, then goes on. No order is lost.",
    }, "danger"),
  ];
  const head = el("div", { class: "card-head" }, el("h2", null, "Chaos"));
  const element = el("section", { class: "card chaos", "aria-label": "Chaos" }, head, el("p", { class: "hint" }, "Break something on purpose, and watch it recover. On this laptop only."), said, switches);
  return { element, update };

  function offer({ readers, reactions, processes }) {
    options(failing.control, [...readers, ...reactions]);
    options(reader.control, readers);
    options(process.control, processes);
    drawReader();
  }

  function update(now) {
    stopped = new Set(now.readers.filter((one) => !one.running).map((one) => one.name));
    drawReader();
  }

  function switchForm(title, fields, submit, wanted, { what, watch }, kind = "") {
    const about = [el("h3", null, title), el("p", null, what), el("p", { class: "hint" }, el("strong", null, "Watch: "), watch)];
    return form({ class: "switch", "aria-label": title }, [about, el("div", { class: "inline" }, fields)], submit, async () => {
      const answer = await post("/local/chaos", wanted(), { tries: 1 });
      const more = [answer.order_id && [" ", storyLink(answer.order_id, "See its story")], answer.expired != null && ` ${answer.expired} items expired.`];
      said.replaceChildren(el("p", { class: "notice good" }, answer.said, more.flat().filter(Boolean).length ? el("span", null, ...more.flat().filter(Boolean)) : ""));
    }, { kind });
  }
}

function options(control, names) {
  const chosen = control.value;
  control.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
}
