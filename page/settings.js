// Where this page is served, and what it is told of the shop there: read before anything else of it begins.

/**
 * `shop`: what it is called. `api`: what stands before each path of the API. `laptop`: whether the shop of this machine
 * serves it, which can show its inside; elsewhere `sign_in` says where people sign in: {url, client_id, scope}.
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

/** Whether something is there where this page is: it says `laptop: true`, `laptop: false`, or nothing, if it always is. */
export const isHere = ({ laptop = settings.laptop }) => laptop === settings.laptop;
