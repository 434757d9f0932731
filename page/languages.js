// The texts of the order page in its user's language, one file for each language. All other views are in English.

import { english, read } from "./settings.js";

const loaded = { en: english };
let current = english;
let wanted = "en";

/** Loads a language and uses it from now on, unless another one is wanted meanwhile. */
export async function useLanguage(code) {
  wanted = code;
  loaded[code] ??= await read(`languages/${code}.json`);
  if (wanted !== code) return;
  current = loaded[code];
  document.documentElement.lang = code;
}

/** The locale in which the language writes numbers and times. */
export const locale = () => textOf("locale");

/** Returns a text, with `values` in its placeholders. A state that only a newer shop has is shown by its name. */
export const textOf = (key, values = {}) => (current[key] ?? inWords(key)).replace(/{(\w+)}/g, (_, name) => values[name]);

/** Returns the last part of a key in words: "Order partly shipped" for step.OrderPartlyShipped. */
function inWords(key) {
  const text = key.split(".").pop().replace(/(?<=[a-z])(?=[A-Z])/g, " ").replaceAll("_", " ").toLowerCase();
  return text.charAt(0).toUpperCase() + text.slice(1);
}
