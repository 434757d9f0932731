// The settings of the shop that serves this page: read before all other modules start.

/**
 * `shop`: its name. `api`: the prefix of each path of the API. `laptop`: whether a local shop serves the page, so that
 * it can show its internals; elsewhere `sign_in` has the sign-in settings: {url, client_id, scope}.
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

/** Whether an entry exists in this place of the page: `laptop: true`, `laptop: false`, or absent for both. */
export const isHere = ({ laptop = settings.laptop }) => laptop === settings.laptop;
