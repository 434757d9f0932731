// Signs users in at the shop's identity provider, which exchanges an authorization code with PKCE (RFC 7636) for tokens.
// PKCE needs no client secret, which a web page could not keep.

import { Unanswered } from "./api.js";
import { Rejection } from "./problems.js";
import { settings } from "./settings.js";
import { toast } from "./ui.js";

// The browser stores the tokens for this tab: they survive a reload and the sign-in, and are deleted with the tab. The
// API reads no cookies, because browsers also send cookies with requests that other pages cause.
const TOKENS = "orderstream.tokens";
const ASKED = "orderstream.sign-in";
const EARLIER_MS = 60_000;
const AWAY = "Sign-in is not available. Try again in a moment.";
const NOT_SIGNED_IN = "You are not signed in. Try again.";
const HERE = new URL(".", location.href).href;
const { url, issuer, client_id: clientId, scope, audience, groups_claim: groupsClaim = "cognito:groups" } = settings.sign_in ?? {};

/** Emits "change" when a user signs in or out. */
export const session = new EventTarget();

/** Goes to the sign-in page. After the sign-in, the user returns to the same view, or to the API documentation. */
export async function signIn() {
  const verifier = random();
  const state = random();
  sessionStorage.setItem(ASKED, JSON.stringify({ verifier, state, view: location.pathname.split("/").pop() + location.hash }));
  const challenge = encoded(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
  const query = { response_type: "code", client_id: clientId, redirect_uri: HERE, scope, state, code_challenge: challenge, code_challenge_method: "S256" };
  if (audience) query.audience = audience; // providers that do not know this parameter ignore it
  const { authorization_endpoint: page } = await endpoints().catch((error) => toast(error.message, "bad")) ?? {};
  if (page) location.assign(`${page}?${new URLSearchParams(query)}`);
}

let found = null;

/** Returns the addresses of the provider, which is Cognito or says them itself (OpenID Connect Discovery 1.0). */
function endpoints() {
  found ??= issuer ? discover() : Promise.resolve({ authorization_endpoint: `${url}/oauth2/authorize`, token_endpoint: `${url}/oauth2/token`, revocation_endpoint: `${url}/oauth2/revoke` });
  return found;
}

async function discover() {
  try {
    const response = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);
    if (response.ok) return await response.json();
  } catch { /* as without an answer */ }
  found = null;
  throw new Unanswered(AWAY);
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
  const { revocation_endpoint: revoke, end_session_endpoint: leave } = await endpoints().catch(() => ({}));
  if (refresh && revoke) await send("revocation_endpoint", { token: refresh }).catch(() => {}); // ignore an error: the token expires anyway
  if (!issuer) location.assign(`${url}/logout?${new URLSearchParams({ client_id: clientId, logout_uri: HERE })}`);
  else location.assign(leave ? `${leave}?${new URLSearchParams({ client_id: clientId, post_logout_redirect_uri: HERE })}` : HERE);
}

// Tokens ---------------------------------------------------------------------------------------------------------------
let renewing = null;

/** Returns the access token, and renews it before it expires. Returns null if no user is signed in. */
export async function token() {
  const now = kept();
  if (!now || now.until > Date.now()) return now?.access ?? null;
  renewing ??= (now.refresh ? askFor({ grant_type: "refresh_token", refresh_token: now.refresh }) : end()).finally(() => (renewing = null));
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
  return { sub: claims.sub, groups: [claims[groupsClaim] ?? []].flat() };
}

const kept = () => JSON.parse(sessionStorage.getItem(TOKENS));

/** Requests a new access token, stores and returns it. If the provider gives none, signs out and returns null. */
async function askFor(sent) {
  const response = await send("token_endpoint", sent);
  if (response.status >= 500 || response.status === 429) throw new Unanswered(AWAY);
  if (!response.ok) return end();
  const given = await response.json();
  const until = Date.now() + (given.expires_in ?? 300) * 1000 - EARLIER_MS;
  sessionStorage.setItem(TOKENS, JSON.stringify({ access: given.access_token, refresh: given.refresh_token ?? sent.refresh_token, until }));
  session.dispatchEvent(new Event("change"));
  return given.access_token;
}

/** Forgets the tokens. Returns null, because no user is signed in any more. */
async function end() {
  sessionStorage.removeItem(TOKENS);
  session.dispatchEvent(new Event("change"));
  return null;
}

async function send(endpoint, sent) {
  const { [endpoint]: address } = await endpoints();
  try {
    return await fetch(address, { method: "POST", body: new URLSearchParams({ client_id: clientId, ...sent }) });
  } catch {
    throw new Unanswered("Sign-in is not available. Are you online?");
  }
}

const random = () => encoded(crypto.getRandomValues(new Uint8Array(32)));
const encoded = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
