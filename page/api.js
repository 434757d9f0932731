// Asks the server: with a person's token, again where that is safe, and tells the page whether anybody answers.
// A path is /api/…, wherever the API is, or /local/…, which only a laptop has.

import { settings } from "./settings.js";
import { labels } from "./labels.js";

/** An answer that says no, as problem+json; `document` has what it carries besides. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || document.message || `The shop answered with status ${status}`);
    this.status = status;
    this.document = document;
    this.slug = String(document.type ?? "").split("#").pop();
  }
}

/** No answer at all. */
export class Unanswered extends Error {}

/** Tells "change" whenever `answers` does. */
export const reach = Object.assign(new EventTarget(), { answers: true });

const PASSING = new Set([429, 502, 503, 504]);
const COMMAND_TRIES = 8;
const ANSWER_WITHIN_MS = 30_000;
let tokens = null;

/** Whom to ask for tokens: `token(person, signal)`, and `forget(person)` where the API does not take one any more. */
export const tokensFrom = (source) => (tokens = source);

/** Where a path of the page's leads here. */
export const reached = (path) => path.replace(/^\/api/, settings.api);

/**
 * The JSON that is answered. `as`: whose token is sent; `key`: an Idempotency-Key. Reads are tried until they are
 * answered or given up; commands some times, because each is keyed or repeatable: one that is not says `tries: 1`.
 */
export async function call(method, path, { as, tries, signal, ...sent } = {}) {
  const most = tries ?? (method === "GET" ? Infinity : COMMAND_TRIES);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const token = as && (await tokens.token(as, signal));
      const answer = await send(method, path, { token, signal, ...sent });
      tell(true);
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      if (error.status === 401 && as && attempt === 1) {
        tokens.forget(as);
        continue;
      }
      const passes = error instanceof Unanswered || PASSING.has(error.status);
      tell(!passes || error.status === 429);
      if (!passes || attempt >= most) throw error;
      await pause(error.retryAfterMs ?? Math.min(5000, 500 * 2 ** attempt), signal);
    }
  }
}

export const get = (path, wish) => call("GET", path, wish);
export const post = (path, body, wish) => call("POST", path, { body: body ?? {}, ...wish });

async function send(method, path, { token, body, key, signal }) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (key) headers["Idempotency-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  const limits = [AbortSignal.timeout(ANSWER_WITHIN_MS), signal].filter(Boolean);
  const request = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.any(limits) };
  let response, text;
  try {
    response = await fetch(reached(path), request);
    text = await response.text();
  } catch {
    throw new Unanswered(labels.unanswered);
  }
  const document = parsed(text);
  if (response.ok) return document;
  const problem = new Problem(response.status, document ?? {});
  const seconds = Number(response.headers.get("Retry-After"));
  if (seconds) problem.retryAfterMs = seconds * 1000;
  throw problem;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function tell(answers) {
  if (reach.answers === answers) return;
  reach.answers = answers;
  reach.dispatchEvent(new Event("change"));
}

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

const intents = new Map();

/**
 * Runs a command under an Idempotency-Key that stays the same while the same is wanted and nobody knows whether it was
 * done: pressing the button again after a lost answer must not do it twice.
 */
export async function once(intent, body, command) {
  const wanted = JSON.stringify(body);
  if (intents.get(intent)?.wanted !== wanted) intents.set(intent, { wanted, key: crypto.randomUUID() });
  try {
    const answer = await command(intents.get(intent).key);
    intents.delete(intent);
    return answer;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) intents.delete(intent); // a plain no: nothing was done
    throw error;
  }
}
