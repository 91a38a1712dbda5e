// Which of the names that there are was meant by one that is not among them.

/** So many letters may be others, missing or too many. */
const mistakesMax = 2;

/** The name that differs least; null: none is near. */
export function nearest(name: string, names: readonly string[]): string | null {
  const distances = names.map((one) => [distance(name, one), one] as const);
  const [found] = distances.sort(([one], [other]) => one - other);
  return found && found[0] <= Math.min(mistakesMax, name.length - 1) ? found[1] : null;
}

/** Of Levenshtein. */
function distance(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > mistakesMax) return mistakesMax + 1;
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      const changed = (row[j] as number) + (letter === other[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row.at(-1) as number;
}
