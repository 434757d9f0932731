// Loads the settings of the shop that serves this page, and the English texts, before all other modules start.

/**
 * `shop`: its name. `api`: the prefix of each path of the API. `laptop`: whether a local shop serves the page. If so,
 * the page also shows the shop's internals. On AWS, `sign_in` has the sign-in settings: {url, client_id, scope}
 * with Cognito, or {issuer, client_id, scope, audience, groups_claim} with another OpenID provider.
 * `languages`: the name of each language of the order page by its code. `language`: the one of users who chose none.
 * `webhook_events`: the events that webhooks can have.
 */
export const [settings, english] = await Promise.all([read("settings.json"), read("languages/en.json")]).catch((error) => {
  document.querySelector("#main .loading").textContent = "The shop does not answer. Reload this page in a moment.";
  throw error;
});

/** Loads a JSON file of the page. */
export async function read(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: status ${response.status}`);
  return response.json();
}

/** Returns whether an entry exists here. `laptop`: true for a laptop, false for AWS, absent for both. */
export const isHere = ({ laptop = settings.laptop }) => laptop === settings.laptop;
