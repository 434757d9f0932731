// Chaos, on the laptop only: cause a failure on purpose, and watch the shop recover.

import { get, post } from "./api.js";
import { field, form } from "./forms.js";
import { el, storyLink } from "./ui.js";

const SPANS = [["1h", "1 hour: unpaid orders lapse"], ["30d", "30 days"], ["90d", "90 days"], ["400d", "400 days: closed orders are archived"]];

const MAIL_FAULTS = [["quota", "the daily quota is used up"], ["rate", "one mail a second"], ["paused", "the account is paused"], ["sandbox", "the account is in the sandbox"], ["unknown", "an unknown reason"], ["suppressed", "accept mails, and send none"], ["none", "nothing: accept all mails"]];

/** The section, and `update`, which receives the state of readers and processes. */
export function chaosSection({ signal }) {
  const said = el("div", { class: "said", role: "status" });
  const names = { readers: ["copies_reader", "event_publisher"], reactions: ["fulfilment", "order_notification", "refund", "archive"], processes: ["dynamodb", "aws"] };
  const failing = field("Reader or reaction", "of", {}, { options: [] });
  const reader = field("Reader", "name", {}, { options: [] });
  const process = field("Process", "process", {}, { options: [] });
  const stop = el("input", { type: "hidden", name: "running" });
  const readerForm = switchForm("Stop a reader", [reader, stop], "Stop the reader", () => ({ switch: "reader", name: reader.control.value, running: stop.value === "true" }), {
    what: "The reader stops processing the stream. The other readers continue.",
    watch: "The records wait and the lag grows. Start the reader again: it catches up.",
  });
  let stopped = new Set();

  /** The reader's button reverses the current state. */
  const drawReader = () => {
    const isStopped = stopped.has(reader.control.value);
    stop.value = String(isStopped);
    readerForm.querySelector("button[type=submit]").textContent = isStopped ? "Start the reader" : "Stop the reader";
  };
  reader.control.addEventListener("change", drawReader);

  offer(names);
  get("/local/shop", { signal }).then((shop) => offer(shop), () => {});
  const times = field("Times", "times", { type: "number", min: "1", max: "100", value: "3", required: true });
  const by = field("Duration", "by", {}, { options: SPANS });
  const refuse = field("SES refuses", "refuse", {}, { options: MAIL_FAULTS });
  const switches = [
    switchForm("Fail deliveries", [failing, times], "Make them fail", () => ({ switch: "fail", of: failing.control.value, times: Number(times.control.value) }), {
      what: "The next deliveries of this reader or reaction fail, as if its code or a service were broken.",
      watch: "Place an order. Its story shows each failed attempt, and then the successful one. Nothing is lost or done twice.",
    }),
    switchForm("Poison a record", [], "Write a poison record", () => ({ switch: "poison" }), {
      what: "Writes a record that no version of the code can read.",
      watch: "Each reader tries the record, parks it, and continues. The record appears under “Failures” with the reason.",
    }),
    readerForm,
    switchForm("Advance the clock", [by], "Advance", () => ({ switch: "advance", by: by.control.value }), {
      what: "Everything that is due within this duration ends now: unpaid orders, old markers, closed orders.",
      watch: "A delivered order is archived, and its story shows this.",
    }),
    switchForm("Refuse mails", [refuse], "Refuse mails", () => ({ switch: "mails", refuse: refuse.control.value }), {
      what: "The mail service refuses mails for this reason, as SES does.",
      watch: "Place an order. Its mail is deferred, and comes within 15 minutes after the service accepts mails again.",
    }),
    switchForm("Kill a process", [process], "Kill the process", () => ({ switch: "kill", process: process.control.value }), {
      what: "Sends kill -9. The process restarts within seconds.",
      watch: "The page reports that the shop does not answer, and then continues. No order is lost.",
    }, "danger"),
  ];
  const head = el("div", { class: "card-head" }, el("h2", null, "Chaos"));
  const element = el("section", { class: "card chaos", "aria-label": "Chaos" }, head, el("p", { class: "hint" }, "Break something on purpose and watch the shop recover. Only on this laptop."), said, switches);
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
      const more = [answer.order_id && [" ", storyLink(answer.order_id, "See its story")]];
      said.replaceChildren(el("p", { class: "notice good" }, answer.said, more.flat().filter(Boolean).length ? el("span", null, ...more.flat().filter(Boolean)) : ""));
    }, { kind });
  }
}

function options(control, names) {
  const chosen = control.value;
  control.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
}
