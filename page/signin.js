// Signing in at the shop's identity provider: a code for tokens, with a proof that who asks for them is who asked for
// the code (RFC 7636). A page can keep no secret, and needs none for this.

import { Unanswered } from "./api.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";

// For this tab: they are there after a reload and after the way to the sign-in and back, and gone with the tab. A cookie
// would be sent along by whoever makes a browser ask; the API reads none.
const TOKENS = "orderstream.tokens";
const ASKED = "orderstream.sign-in";
const EARLIER_MS = 60_000;
const NOT_SIGNED_IN = "You are not signed in. Try again.";
const HERE = new URL(".", location.href).href;
const { url, client_id: clientId, scope } = settings.sign_in ?? {};

/** Tells "change" whenever somebody is signed in, or is not any more. */
export const session = new EventTarget();

/** Goes where one signs in. Who comes back is at the same view. */
export async function signIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(ASKED, JSON.stringify({ verifier, state, view: location.hash }));
  const challenge = encoded(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const query = { response_type: "code", client_id: clientId, redirect_uri: HERE, scope, state, code_challenge: challenge, code_challenge_method: "S256" };
  location.assign(`${url}/oauth2/authorize?${new URLSearchParams(query)}`);
}

/** Takes what one came back with out of the address, and has tokens for it. */
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
}

/** Signs out here and there: the tokens are gone and revoked, and who signs in next is asked who they are. */
export async function signOut() {
  const { refresh } = kept() ?? {};
  sessionStorage.clear(); // the basket, too
  if (refresh) await send("revoke", { token: refresh }).catch(() => {}); // without it, it ends by itself
  location.assign(`${url}/logout?${new URLSearchParams({ client_id: clientId, logout_uri: HERE })}`);
}

// Tokens ---------------------------------------------------------------------------------------------------------------
let renewing = null;

/** The access token, renewed before it ends; null where nobody is signed in. */
export async function token() {
  const now = kept();
  if (!now || now.until > Date.now()) return now?.access ?? null;
  renewing ??= askFor({ grant_type: "refresh_token", refresh_token: now.refresh }).finally(() => (renewing = null));
  return renewing;
}

/** Has it renewed when it is asked for next. */
export function forget() {
  const now = kept();
  if (now) sessionStorage.setItem(TOKENS, JSON.stringify({ ...now, until: 0 }));
}

/** What the access token says of whose it is: {sub, groups}, to choose what is shown. What they may do the API knows. */
export function whose() {
  const now = kept();
  if (!now) return null;
  const claims = JSON.parse(atob(now.access.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  return { sub: claims.sub, groups: claims["cognito:groups"] ?? [] };
}

const kept = () => JSON.parse(sessionStorage.getItem(TOKENS));

/** A new access token, which is kept; null, and nobody is signed in, where none is given. */
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
