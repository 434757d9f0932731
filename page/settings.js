// Loads the settings of the shop that serves this page, before all other modules start.

/**
 * `shop`: its name. `api`: the prefix of each path of the API. `laptop`: whether a local shop serves the page. If so,
 * the page also shows the shop's internals. On AWS, `sign_in` has the sign-in settings: {url, client_id, scope}
 * with Cognito, or {issuer, client_id, scope, audience, groups_claim} with another OpenID provider.
 */
export const settings = await read().catch((error) => {
  document.querySelector("#main .loading").textContent = "The shop does not answer. Reload this page in a moment.";
  throw error;
});

async function read() {
  const response = await fetch("settings.json");
  if (!response.ok) throw new Error(`settings.json: status ${response.status}`);
  return response.json();
}

/** Returns whether an entry exists here. `laptop`: true for a laptop, false for AWS, absent for both. */
export const isHere = ({ laptop = settings.laptop }) => laptop === settings.laptop;
