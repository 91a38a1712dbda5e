// What is wrong with a grant or a policy that somebody wrote. The message is for its author, taken
// from the text alone; who reads the text turns it into the refusal that fits.

export class RuleFault extends Error {
  override readonly name = 'RuleFault';
}

const shownLengthMax = 80;

/** A piece of the author's text, cut to what a message can hold. */
export function show(value: unknown): string {
  // What is nested may be nested deeper than JSON.stringify goes.
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? '[…]' : '{…}';
  const text = String(value);
  return text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text;
}
