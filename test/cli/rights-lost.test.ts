// What is kept in memory of rights must follow what is committed. Where it cannot, the gateway ends with
// a clear word, and a start reads everything anew.
import { join } from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { S3Client } from '../fault/s3-client.ts';
import { type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
afterAll(() => place.remove());

function edit(sql: string): void {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  try {
    db.exec(sql);
  } finally {
    db.close();
  }
}

async function put(served: Served, key: { accessKeyId: string; secretAccessKey: string }) {
  const client = new S3Client({ endpoint: served.endpoint, ...key });
  try {
    return (await client.send('PUT', '/raw')).status;
  } finally {
    client.close();
  }
}

test('a gateway that cannot read what was committed of rights ends, and a start is all it takes', async () => {
  let served = await place.serve();
  expect((await place.run(['tenant', 'create', 'cms'])).code).toBe(0);
  expect((await place.run(['principal', 'create', 'cms/alice'])).code).toBe(0);
  const made = await place.run(['key', 'create', 'cms/alice', '--json']);
  const alice = JSON.parse(made.stdout);
  // What is committed is not what can be read.
  edit(`CREATE TRIGGER broken AFTER INSERT ON issuers
    BEGIN UPDATE issuers SET mapping = '{' WHERE name = new.name; END`);
  const add = ['issuer', 'add', 'cms/ci', '--url', 'https://ci.example'];
  const more = ['--audience', 'https://bursar.example/cms', '--path-prefix', '/'];
  const added = await place.run([...add, ...more, '--default-principal', 'alice']);
  expect(added.code).toBe(1);
  expect(await served.ended()).toBe(1);
  expect(served.stderr()).toMatch(
    /^bursar: the gateway cannot go on, stopping: what is kept in memory of a change could not be read: .*JSON/m,
  );
  edit('DROP TRIGGER broken; DELETE FROM issuers');
  served = await place.serve();
  expect(await put(served, alice)).toBe(200);
  expect(await served.stop()).toBe(0);
});
