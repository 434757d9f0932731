// Sends requests to the server with the user's token, retries if that is safe, and reports whether the server answers.
// A path begins with /api/ (the API, wherever it is deployed) or with /local/ (exists only on a laptop).

import { settings } from "./settings.js";
import { labels } from "./labels.js";

/** An error response of the API as problem+json. `document`: all its fields. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || document.message || `The shop answered with status ${status}`);
    this.status = status;
    this.document = document;
    this.slug = String(document.type ?? "").split("#").pop();
  }
}

/** The server sent no response. */
export class Unanswered extends Error {}

/** Emits "change" when `answers` changes. */
export const reach = Object.assign(new EventTarget(), { answers: true });

const PASSING = new Set([429, 502, 503, 504]);
const COMMAND_TRIES = 8;
const ANSWER_WITHIN_MS = 30_000;
let tokens = null;

/** Sets the source of tokens: `token(person)`, and `forget(person)` for a token that the API rejected. */
export const tokensFrom = (source) => (tokens = source);

/** Returns the path of the API for a user's own orders. A guest, {token}, uses the aliases for guests. */
export const ownPath = (me, path) => `${me?.token ? "/api/guest" : "/api"}${path}`;

/** Returns the URL for a path of the page. */
export const reached = (path) => path.replace(/^\/api/, settings.api);

/**
 * Sends a request and returns the JSON of the response. `as`: the user whose token it sends, or a guest
 * with the token of a link, {token}. `key`: an Idempotency-Key. `body`: an object, or a Blob.
 * It retries reads until they succeed or are aborted. It retries commands a few times, because each command has a key
 * or is safe to repeat. For any other command, set `tries: 1`.
 */
export async function call(method, path, { as, tries, signal, ...sent } = {}) {
  const most = tries ?? (method === "GET" ? Infinity : COMMAND_TRIES);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const token = as?.token ?? (as && (await tokens.token(as)));
      const answer = await send(method, path, { token, signal, ...sent });
      setReachable(true);
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      if (error.status === 401 && as && !as.token && attempt === 1) {
        tokens.forget(as);
        continue;
      }
      const passes = error instanceof Unanswered || PASSING.has(error.status);
      setReachable(!passes || error.status === 429);
      if (!passes || attempt >= most) throw error;
      await pause(error.retryAfterMs ?? Math.min(5000, 500 * 2 ** attempt), signal);
    }
  }
}

export const get = (path, wish) => call("GET", path, wish);
export const post = (path, body, wish) => call("POST", path, { body: body ?? {}, ...wish });

/** Creates something, and returns it, or null if it exists already. */
export async function create(path, body, wish) {
  try {
    return await post(path, body, wish);
  } catch (error) {
    if (error instanceof Problem && error.slug === "already-exists") return null;
    throw error;
  }
}

async function send(method, path, { token, body, key, signal }) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (key) headers["Idempotency-Key"] = key;
  const isFile = body instanceof Blob;
  if (body) headers["Content-Type"] = isFile ? body.type : "application/json";
  const limits = [AbortSignal.timeout(ANSWER_WITHIN_MS), signal].filter(Boolean);
  const request = { method, headers, body: body && !isFile ? JSON.stringify(body) : body, signal: AbortSignal.any(limits) };
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

function setReachable(answers) {
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

/** Calls `run` repeatedly while the tab is visible. Waits for each call before the next. Returns a function that stops it. */
export function repeat(run, milliseconds, signal) {
  let running = false;
  const timer = setInterval(async () => {
    if (running || document.hidden) return;
    running = true;
    await Promise.resolve(run()).catch(() => {}); // ignore the error: the page's header shows it, and the next call may succeed
    running = false;
  }, milliseconds);
  const stop = () => clearInterval(timer);
  signal.addEventListener("abort", stop, { once: true });
  return stop;
}

const intents = new Map();

/**
 * Runs a command with an Idempotency-Key. While the result is unknown, the same input gets the same key. So if the user
 * presses the button again after a lost answer, the command does not run twice.
 */
export async function once(intent, body, command) {
  const wanted = JSON.stringify(body);
  if (intents.get(intent)?.wanted !== wanted) intents.set(intent, { wanted, key: crypto.randomUUID() });
  try {
    const answer = await command(intents.get(intent).key);
    intents.delete(intent);
    return answer;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) intents.delete(intent); // the API rejected the command, so it did nothing
    throw error;
  }
}
