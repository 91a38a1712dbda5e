// The list of decisions has each of them once, by its own title, in the order of their numbers.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const folder = resolve(import.meta.dirname, '../../docs/decisions');
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');

it('decisions are listed in their order, each by its title', () => {
  const files = readdirSync(folder).filter((name) => /^\d{4}-.*\.md$/.test(name));
  const numbers = files.map((name) => Number(name.slice(0, 4)));
  expect(new Set(numbers).size).toBe(files.length);
  const rows = files.sort().map((name) => {
    const [, number, title] = /^# (\d+)\. (.+)$/m.exec(read(name)) ?? [];
    expect(Number(number), name).toBe(Number(name.slice(0, 4)));
    return `${number}. [${title}](${name})`;
  });
  expect(
    read('README.md')
      .split('\n')
      .filter((line) => /^\d+\. /.test(line)),
  ).toEqual(rows);
});
