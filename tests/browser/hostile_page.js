// The script of a hostile web page. It sends every attack to every target, and returns what it could read:
// [{ target, attack (its index), status, text }]. See tests/browser/test_hostile_page.py for the attacks.
async ({ targets, attacks, milliseconds, parallel }) => {
  const wait = (value, times = 1) => new Promise((resolve) => setTimeout(resolve, times * milliseconds, value));

  const request = async (url, { method, headers, body }, signal, mode) => {
    const answer = await fetch(url, { method, headers, body, mode, signal });
    const text = await Promise.race([answer.text(), wait("(a body without an end)")]);
    return mode === "no-cors" ? null : { status: answer.status, text };
  };

  /** Wait for one of these events; `success` names those that prove that something could be read. */
  const events = (source, success, failure = ["error"]) =>
    new Promise((resolve) => {
      success.forEach((name) => source.addEventListener(name, (event) => resolve({ text: event.data ?? name })));
      failure.forEach((name) => source.addEventListener(name, () => resolve(null)));
    });

  const element = (name, properties, signal) => {
    const made = Object.assign(document.createElement(name), properties);
    signal.addEventListener("abort", () => made.remove());
    return made;
  };

  /** Load a document in a frame. It can be read if it has the origin of this page. */
  const frame = (signal, load) => {
    const made = element("iframe", { name: `frame-${Math.random()}` }, signal);
    document.body.append(made);
    return new Promise((resolve) => {
      made.addEventListener("load", () => {
        try {
          const { document: loaded, performance: timing } = made.contentWindow;
          const [{ responseStatus: status }] = timing.getEntriesByType("navigation");
          resolve({ status, text: loaded.documentElement.textContent });
        } catch {
          resolve(null);
        }
      });
      load(made);
    });
  };

  const ways = {
    fetch: (url, attack, signal) => request(url, attack, signal, "cors"),
    "no-cors fetch": (url, attack, signal) => request(url, attack, signal, "no-cors"),
    form: (url, { enctype, fields }, signal) =>
      frame(signal, ({ name: target }) => {
        const form = element("form", { method: "post", action: url, enctype, target }, signal);
        const inputs = Object.entries(fields).map(([name, value]) => element("textarea", { name, value }, signal));
        form.append(...inputs);
        document.body.append(form);
        form.submit();
      }),
    iframe: (url, _, signal) => frame(signal, (made) => (made.src = url)),
    image: (url, _, signal) => events(element("img", { src: url }, signal), ["load"]),
    script: (url, _, signal) => {
      const made = element("script", { src: url }, signal);
      document.head.append(made);
      return events(made, ["load"]);
    },
    WebSocket: (url, _, signal) => {
      const socket = new WebSocket(url.replace(/^http/, "ws"));
      signal.addEventListener("abort", () => socket.close());
      return events(socket, ["open"], ["error", "close"]);
    },
    EventSource: (url, _, signal) => {
      const source = new EventSource(url);
      signal.addEventListener("abort", () => source.close());
      return events(source, ["open", "message"]);
    },
  };

  const send = async (target, attack) => {
    const stop = new AbortController();
    const times = attack.way === "WebSocket" ? 5 : 1; // Chromium opens one at a time to an IP address
    try {
      return await Promise.race([ways[attack.way](target + attack.path, attack, stop.signal), wait(null, times)]);
    } catch {
      return null;
    } finally {
      stop.abort();
    }
  };

  const learnt = [];
  const sendAll = async (target, queue) => {
    for (const [index, attack] of queue) {
      const answer = await send(target, attack);
      if (answer) learnt.push({ target, attack: index, ...answer, text: answer.text.slice(0, 1000) });
    }
  };
  const senders = targets.flatMap((target) => {
    const queue = attacks.entries(); // shared by the senders of this target
    return Array.from({ length: parallel }, () => sendAll(target, queue));
  });
  await Promise.all(senders);
  return learnt;
}
