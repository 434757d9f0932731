// Signs users in at the shop's identity provider, which exchanges an authorization code with PKCE (RFC 7636) for tokens.
// PKCE needs no client secret, which a web page could not keep.

import { Unanswered } from "./api.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";

// The browser stores the tokens for this tab: they survive a reload and the sign-in, and are deleted with the tab. The
// API reads no cookies, because browsers also send cookies with requests that other pages cause.
const TOKENS = "orderstream.tokens";
const ASKED = "orderstream.sign-in";
const EARLIER_MS = 60_000;
const NOT_SIGNED_IN = "You are not signed in. Try again.";
const HERE = new URL(".", location.href).href;
const { url, client_id: clientId, scope } = settings.sign_in ?? {};

/** Emits "change" when a user signs in or out. */
export const session = new EventTarget();

/** Goes to the sign-in page. After the sign-in, the user returns to the same view, or to the API documentation. */
export async function signIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(ASKED, JSON.stringify({ verifier, state, view: location.pathname.split("/").pop() + location.hash }));
  const challenge = encoded(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const query = { response_type: "code", client_id: clientId, redirect_uri: HERE, scope, state, code_challenge: challenge, code_challenge_method: "S256" };
  location.assign(`${url}/oauth2/authorize?${new URLSearchParams(query)}`);
}

/** Removes the code from the address, and exchanges it for tokens. */
export async function comeBack() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state")) return;
  const asked = JSON.parse(sessionStorage.getItem(ASKED)) ?? {};
  sessionStorage.removeItem(ASKED);
  history.replaceState(null, "", `${HERE}${asked.view ?? ""}`);
  if (answer.get("state") !== asked.state) throw new Rejection("This sign-in did not start in this tab. Sign in again.");
  if (!answer.has("code")) throw new Rejection(NOT_SIGNED_IN);
  const sent = { grant_type: "authorization_code", code: answer.get("code"), redirect_uri: HERE, code_verifier: asked.verifier };
  if (!(await askFor(sent))) throw new Rejection(NOT_SIGNED_IN);
  if (asked.view && !asked.view.startsWith("#")) location.reload(); // load the document of the new address, because it is not this one
}

/** Signs out here and at the provider: deletes and revokes the tokens. The next sign-in asks for the user again. */
export async function signOut() {
  const { refresh } = kept() ?? {};
  sessionStorage.clear(); // the basket, too
  if (refresh) await send("revoke", { token: refresh }).catch(() => {}); // ignore an error: the token expires anyway
  location.assign(`${url}/logout?${new URLSearchParams({ client_id: clientId, logout_uri: HERE })}`);
}

// Tokens ---------------------------------------------------------------------------------------------------------------
let renewing = null;

/** Returns the access token, and renews it before it expires. Returns null if no user is signed in. */
export async function token() {
  const now = kept();
  if (!now || now.until > Date.now()) return now?.access ?? null;
  renewing ??= askFor({ grant_type: "refresh_token", refresh_token: now.refresh }).finally(() => (renewing = null));
  return renewing;
}

/** Makes the next call renew the token. */
export function forget() {
  const now = kept();
  if (now) sessionStorage.setItem(TOKENS, JSON.stringify({ ...now, until: 0 }));
}

/** Returns the user in the access token: {sub, groups}, to select the views. The API itself checks all permissions. */
export function whose() {
  const now = kept();
  if (!now) return null;
  const claims = JSON.parse(atob(now.access.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  return { sub: claims.sub, groups: claims["cognito:groups"] ?? [] };
}

const kept = () => JSON.parse(sessionStorage.getItem(TOKENS));

/** Requests a new access token, stores and returns it. If the provider gives none, signs out and returns null. */
async function askFor(sent) {
  const response = await send("token", sent);
  if (response.status >= 500 || response.status === 429) throw new Unanswered("Sign-in is not available. Try again in a moment.");
  const given = response.ok && (await response.json());
  if (given) {
    const until = Date.now() + given.expires_in * 1000 - EARLIER_MS;
    sessionStorage.setItem(TOKENS, JSON.stringify({ access: given.access_token, refresh: given.refresh_token ?? sent.refresh_token, until }));
  } else sessionStorage.removeItem(TOKENS);
  session.dispatchEvent(new Event("change"));
  return given ? given.access_token : null;
}

async function send(what, sent) {
  try {
    return await fetch(`${url}/oauth2/${what}`, { method: "POST", body: new URLSearchParams({ client_id: clientId, ...sent }) });
  } catch {
    throw new Unanswered("Sign-in is not available. Are you online?");
  }
}

const random = () => encoded(crypto.getRandomValues(new Uint8Array(32)));
const encoded = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
