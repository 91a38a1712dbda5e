// `bursar verify deep`: names the objects that the index of objects does not lead to.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { S3Client } from '../fault/s3-client.ts';
import { operator, operatorSettings, send } from '../tooling/filled-folder.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
const file = join(place.data, 'objects.db');

beforeAll(async () => {
  const served = await place.serve(['--data', place.data], operatorSettings);
  const client = new S3Client({ endpoint: served.endpoint, ...operator });
  await send(client, 'PUT', '/data');
  for (const run of ['1', '2']) {
    await send(client, 'PUT', `/data/run${run}`, { headers: { 'x-amz-meta-run': run } });
  }
  client.close();
  await vi.waitFor(
    async () => {
      using index = openDatabase(file, { readonly: true, cacheKib: 1024 });
      expect(await index.tx.all('SELECT key FROM objects')).toHaveLength(2);
      // All of the catalog was read.
      const state = await index.tx.all('SELECT scan_key AS key FROM state');
      expect(state).toEqual([{ key: null }]);
    },
    { timeout: 30_000, interval: 100 },
  );
  expect(await served.stop()).toBe(0);
});
afterAll(() => place.remove());

const verify = () => place.run(['verify', 'deep', '--data', place.data, '--skip-data']);

it('finds nothing where the index leads to all', async () => {
  expect(existsSync(`${file}-wal`)).toBe(false);
  const { code, stdout } = await verify();
  expect([code, stdout]).toEqual([0, expect.not.stringContaining('objects.db')]);
});

it('names what the index misses', async () => {
  {
    using index = openDatabase(file, { readonly: false, cacheKib: 1024, isDerived: true });
    await index.tx.run('DELETE FROM postings WHERE value = ?', '2');
  }
  const { code, stdout, stderr } = await verify();
  expect(code).toBe(1);
  expect(stdout + stderr).toContain('does not lead to default:data/run2 by all that it says');
  expect(stdout + stderr).not.toContain('data/run1');
});

it('has nothing to say where there is no index', async () => {
  rmSync(file);
  expect((await verify()).code).toBe(0);
});
