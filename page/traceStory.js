// Puts the business steps of an order and the chapters of its trace together.

const CLOCK_MS = 1000; // the times of items and of spans come from different processes

/**
 * Returns the groups of an order's story: {chapter, steps}. A step belongs to the chapter that ran at its time. `chapter`
 * is absent for steps without spans, for example of a seeded order. Groups are in the order of time, but failing chapters
 * come first.
 */
export function storyOf(chapters, steps) {
  const groups = chapters.map((chapter) => ({ at: chapter.began_at, chapter, steps: [] }));
  const alone = [];
  for (const step of steps) {
    const found = groupOf(groups, step);
    if (found) found.steps.push(step);
    else alone.push({ at: Date.parse(step.at), steps: [step] });
  }
  const joined = [];
  for (const group of [...alone, ...groups].sort((one, other) => one.at - other.at)) {
    if (!group.chapter && joined.length && !joined.at(-1).chapter) joined.at(-1).steps.push(...group.steps);
    else joined.push(group);
  }
  return joined.sort((one, other) => isFailing(other) - isFailing(one));
}

const isFailing = ({ chapter }) => Number(Boolean(chapter?.failing.length));

function groupOf(groups, { at: text, mail }) {
  const at = Date.parse(text);
  const sent = mail && groups.find(({ chapter }) => chapter.spans.some(({ id }) => id === `mail-${mail.slice(0, 12)}`));
  const near = groups.filter(({ chapter: { began_at: from, ms } }) => from - CLOCK_MS <= at && at <= from + ms + CLOCK_MS);
  return sent || (near.findLast((one) => one.at <= at) ?? near[0]);
}

/** Returns the chapters with failures, with only their failed spans and the causes of these. */
export function failuresOf(chapters) {
  return chapters.filter(({ failures }) => failures > 0).map((chapter) => {
    const byId = new Map(chapter.spans.map((span) => [span.id, span]));
    const kept = new Set();
    for (const span of chapter.spans.filter(({ failures }) => failures > 0)) {
      for (let one = span; one && !kept.has(one); one = byId.get(one.parent)) kept.add(one);
    }
    return { ...chapter, spans: chapter.spans.filter((one) => kept.has(one)) };
  });
}
