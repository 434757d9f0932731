// Receives new entries of the journal from a stream that reconnects, and passes them on in small batches.
// A hidden tab closes its stream, because a browser allows only six connections to a server for all tabs together.

const BATCH_MS = 120;
const AGAIN_MS = 2000;

/**
 * Calls `on` with all entries after the id `after`, or only with new entries if `after` is undefined. If `order` is set,
 * only with entries of this order. Stops when `signal` aborts. Calls `onState` with whether the stream is open.
 */
export function follow({ after, order, signal, on, onState = () => {} }) {
  let last = after;
  let waiting = [];
  let source = null;

  const hand = () => {
    const batch = waiting;
    waiting = [];
    if (!signal.aborted && batch.length) on(batch);
  };
  const open = () => {
    if (signal.aborted || document.hidden || source) return;
    const query = new URLSearchParams();
    if (last !== undefined) query.set("after", last);
    if (order) query.set("order", order);
    const opened = (source = new EventSource(`/local/events?${query}`));
    opened.onopen = () => onState(true);
    opened.onmessage = ({ data }) => {
      const entry = JSON.parse(data);
      if (last !== undefined && entry.id <= last) return; // a new stream may send an entry again
      last = entry.id;
      if (waiting.push(entry) === 1) setTimeout(hand, BATCH_MS);
    };
    opened.onerror = () => {
      onState(false);
      if (opened.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
      source = null;
      setTimeout(open, AGAIN_MS);
    };
  };
  const attend = () => {
    if (!document.hidden) return open();
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", attend, { signal });
  signal.addEventListener("abort", () => source?.close(), { once: true });
  open();
}
