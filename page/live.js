// New entries of the journal, as they are written: a stream that mends itself, handed on in small batches.

const BATCH_MS = 120;
const AGAIN_MS = 2000;

/**
 * Calls `on` with the entries after `after` (from now on, if undefined), of one order if `order`, until `signal`
 * aborts. `onState` hears whether the stream is open.
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
    if (signal.aborted) return;
    const query = new URLSearchParams();
    if (last !== undefined) query.set("after", last);
    if (order) query.set("order", order);
    source = new EventSource(`/local/events?${query}`);
    source.onopen = () => onState(true);
    source.onmessage = ({ data }) => {
      const entry = JSON.parse(data);
      if (last !== undefined && entry.id <= last) return; // a stream that was opened anew may repeat itself
      last = entry.id;
      if (waiting.push(entry) === 1) setTimeout(hand, BATCH_MS);
    };
    source.onerror = () => {
      onState(false);
      if (source.readyState !== EventSource.CLOSED) return; // it opens itself again
      setTimeout(open, AGAIN_MS);
    };
  };
  signal.addEventListener("abort", () => source?.close(), { once: true });
  open();
}
