// Forms: fields with labels, protection against a second click, and errors beside the fields.

import { scaleOf } from "./format.js";
import { explain, fieldErrors } from "./problems.js";
import { el } from "./ui.js";

let fields = 0;

/** Returns a label with its control. `name`: the field's path in the API's errors. */
export function field(label, name, attributes = {}, { hint, options } = {}) {
  const id = `field-${(fields += 1)}`;
  const described = hint && `${id}-hint`;
  const control = options
    ? el("select", { id, name, "aria-describedby": described, ...attributes }, options.map(([value, text, selected]) => el("option", { value, selected }, text)))
    : el("input", { id, name, type: "text", "aria-describedby": described, ...attributes });
  const help = hint && el("span", { id: described, class: "hint" }, hint);
  return Object.assign(el("div", { class: "field" }, el("label", { for: id }, label), control, help), { control });
}

/** Returns a field in which a person writes 12.50 for the whole number 1250. `scale`: 100 for two decimals. */
export const decimalField = (label, name, value, scale, attributes = {}) =>
  field(label, name, { type: "number", min: 1 / scale, step: 1 / scale, value: value === null ? null : value / scale, required: true, "data-scale": scale, ...attributes });

/** Returns a field for an amount. `value`: the amount at first, in minor units, such as cents. */
export const amountField = (value, currency, label = `Amount in ${currency}`) => decimalField(label, "amount", value, scaleOf(currency));

/** Returns the number in a field as the API takes it: 1250 for 12.50 in a field with two decimals. */
export const wholeOf = ({ value, dataset }) => Math.round(Number(value) * Number(dataset.scale ?? 1));

/** Returns fields for an amount and its currency. */
export function moneyFields(value) {
  const currency = field("Currency", "currency", { value: "EUR", required: true, maxlength: "3", pattern: "[A-Z]{3}", autocapitalize: "characters" });
  const amount = amountField(value, "EUR", "Amount");
  currency.control.addEventListener("change", () => currency.control.validity.valid && (amount.control.dataset.scale = scaleOf(currency.control.value)));
  return [amount, currency];
}

export const refundToField = () =>
  field("Refund to", "to", {}, { options: [["original", "the original payment method"], ["credit", "the customer's store credit"]] });

export function checkbox(label, name, attributes = {}) {
  return el("label", { class: "check" }, el("input", { type: "checkbox", name, ...attributes }), label);
}

/** Converts the local time of a datetime-local to the shop's format; "" if it is empty. */
export const asUtc = (local) => local && new Date(local).toISOString();

/** Converts a time to the value of a datetime-local, to the minute. */
export function localMoment(at) {
  const date = new Date(at);
  return at && !Number.isNaN(date.valueOf()) ? new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "";
}

/** Returns the fields of an address with its known values, and a function that reads them. `prefix`: of the names. */
export function addressFields(known, prefix = "") {
  const part = (label, name, attributes, help) => field(label, `${prefix}${name}`, { value: known[name] ?? "", ...attributes }, help);
  const rows = [
    part("Name", "name", { autocomplete: "name" }),
    part("Company (optional)", "company", { autocomplete: "organization" }),
    part("Street", "street", { autocomplete: "address-line1" }),
    part("Second line (optional)", "street2", { autocomplete: "address-line2" }),
    el("div", { class: "pair" }, part("Postcode", "postcode", { autocomplete: "postal-code" }), part("City", "city", { autocomplete: "address-level2" })),
    el("div", { class: "pair" },
      part("Country", "country", { autocomplete: "country", maxlength: "2", autocapitalize: "characters" }, { hint: "Two letters, such as AT or DE." }),
      part("Region (optional)", "region", { autocomplete: "address-level1", maxlength: "3", autocapitalize: "characters" }, { hint: "Such as CA for California." })),
    part("Phone (optional)", "phone", { type: "tel", autocomplete: "tel" }, { hint: "For the carrier." }),
  ];
  const fields = el("fieldset", null, el("legend", null, "Deliver to"), rows);
  const address = () => Object.fromEntries([...fields.querySelectorAll("input")].filter((input) => input.value).map((input) => [input.name.slice(prefix.length), input.value]));
  return { fields, address };
}

/** Returns the fields of a time range and its order, with the values in the address. */
export const rangeFields = ({ from, to, order }) => [
  field("From", "from", { type: "datetime-local", value: localMoment(from) }),
  field("Before", "to", { type: "datetime-local", value: localMoment(to) }),
  field("Sort", "order", {}, { options: [["newest", "newest first", order === "newest"], ["oldest", "oldest first", order === "oldest"]] })];

/** Returns a form that calls `send` with itself. Shows errors at their fields and above the button. */
export function form(attributes, children, submitText, send, { nameOf, kind = "primary", also = [] } = {}) {
  const said = el("div", { class: "form-said", role: "alert" });
  const go = el("button", { type: "submit", class: `button ${kind}` }, submitText);
  const made = el("form", attributes, children, said, el("div", { class: "row" }, go, also));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.getAttribute("aria-disabled") === "true") return;
    go.setAttribute("aria-disabled", "true");
    clear(made, said);
    try {
      await send(made);
    } catch (error) {
      if (error.name !== "AbortError") show(made, said, error, nameOf);
    } finally {
      go.removeAttribute("aria-disabled");
    }
  });
  return made;
}

function clear(made, said) {
  said.replaceChildren();
  for (const note of made.querySelectorAll(".field-error")) note.remove();
  for (const control of made.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-errormessage");
  }
}

function show(made, said, error, nameOf) {
  const astray = fieldErrors(error).filter(({ field: name, why }) => !mark(made, name, why));
  const list = astray.length > 0 && el("ul", null, astray.map(({ field: name, why }) => el("li", null, `${name}: ${why}`)));
  said.replaceChildren(el("div", { class: "notice bad" }, el("p", null, explain(error, nameOf)), list || ""));
  made.querySelector("[aria-invalid]")?.focus();
}

/** Makes a sentence of an error message. Some messages begin with the verb, others are sentences already. */
const asSentence = (why) => `${/^[a-z]/.test(why) ? "This field " : ""}${why.replace(/\.?$/, ".")}`;

/** Shows an error at its control; returns false if the form has no control of this name. */
function mark(made, name, why) {
  const control = [...made.elements].find((one) => one.name === name);
  if (!control?.id) return false;
  const id = `${control.id}-error`;
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-errormessage", id);
  control.after(el("span", { id, class: "field-error" }, asSentence(why)));
  return true;
}
