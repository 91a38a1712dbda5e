// The page of promises names the tests that hold them, and each of these is there.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readPage, root, rowsOf } from './markdown.ts';

const page = readPage('SECURITY.md').text;
const promises = rowsOf(page.slice(page.indexOf('## What is promised')));

it('has promises', () => expect(promises.length).toBeGreaterThan(20));

it.each(promises)('%s', (_promise, tests = '') => {
  const files = [...tests.matchAll(/test\/[\w./-]+/g)].map(([file]) => file);
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) expect([file, existsSync(join(root, file))]).toEqual([file, true]);
});
