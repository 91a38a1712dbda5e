// What a standby keeps on its own disk (docs/admin/standby.md). How it follows and is promoted is
// in test/fault/standby.test.ts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Follower, readFollowed } from '#bursar/backup/shipping/follower.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-follower-'));
  mkdirSync(join(folder, 'standby'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const state = {
  ...{ version: 1, copy: '20261122T220140798Z-e90e4d48-01234567', backup: 'b', position: null },
  ...{ timeMs: 1, records: 1 },
};

function write(name: string, text: string): void {
  writeFileSync(join(folder, 'standby', name), text);
}

it('has followed nothing where nothing is', () => {
  expect(readFollowed(folder)).toBeNull();
});

it.each([
  '',
  'null',
  '[]',
  '{"version":1',
  JSON.stringify({ ...state, version: 2 }),
  JSON.stringify({ ...state, copy: '../../elsewhere' }),
])('refuses a state that is damaged: %s', (text) => {
  write('state.json', text);
  expect(() => readFollowed(folder)).toThrow('state.json is damaged: remove');
});

it('refuses a segment that is damaged, and says what to do', async () => {
  write('state.json', JSON.stringify(state));
  write('next.json', '{"head":');
  await expect(Follower.finish(folder)).rejects.toThrow('next.json is damaged: remove');
});

it('leaves a segment of a copy that is not there any more', async () => {
  write('state.json', JSON.stringify(state));
  write('next.json', JSON.stringify({ head: {}, digest: '', copy: 'another' }));
  await Follower.finish(folder);
  expect(readFollowed(folder)).toMatchObject({ copy: state.copy, position: null });
});
