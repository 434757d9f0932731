// New entries of the journal, live: a stream that reconnects, passed on in small batches.
// A hidden tab holds no stream: a browser allows six connections to an address, for all its tabs together.

const BATCH_MS = 120;
const AGAIN_MS = 2000;

/**
 * Calls `on` with the entries after `after` (from now on, if undefined), of one order if `order` is set, until `signal`
 * aborts. `onState` is called with whether the stream is open.
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
      if (last !== undefined && entry.id <= last) return; // a stream that was opened anew may repeat itself
      last = entry.id;
      if (waiting.push(entry) === 1) setTimeout(hand, BATCH_MS);
    };
    opened.onerror = () => {
      onState(false);
      if (opened.readyState !== EventSource.CLOSED) return; // it opens itself again
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
