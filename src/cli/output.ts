// How administration commands answer: aligned columns for people, JSON for machines (--json).

/** Writes what a command found: `json` with --json, else `rows` under `heading`. */
export function printTable(
  asJson: boolean | undefined,
  answer: { json: unknown; heading: readonly string[]; rows: readonly (readonly string[])[] },
): void {
  if (asJson) {
    printJson(answer.json);
    return;
  }
  const lines = [answer.heading, ...answer.rows];
  const widths = answer.heading.map((_, i) => Math.max(...lines.map((line) => width(line[i]))));
  for (const line of lines) {
    const cells = line.map((cell, i) => printable(cell).padEnd(widths[i] as number));
    print(cells.join('  ').trimEnd());
  }
}

export function printJson(json: unknown): void {
  print(JSON.stringify(json, null, 2));
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function width(cell: string | undefined): number {
  return printable(cell ?? '').length;
}

/** Object keys are clients' texts: control characters in them must not reach the terminal. */
function printable(cell: string): string {
  return cell.replaceAll(/\p{Cc}/gu, (character) => JSON.stringify(character).slice(1, -1));
}
