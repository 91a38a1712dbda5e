// What clients see of objects whose rows were changed in the database by somebody who has no keys:
// nothing of them. Each attack is on an object of its own and stays in place until the verification
// has to find all of them, and nothing else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeManifest } from '#bursar/core/manifest.js';
import { CatalogEditor } from '../tooling/attacks.ts';
import type { AttackTarget } from './attack-suite.ts';
import { KiB, makeContent } from './content.ts';
import { readFailures, readRecords, receive, verifyAll } from './integrity-client.ts';
import { S3Client } from './s3-client.ts';

/** One object, `rows/<key>`, as its row was when it had been written. */
interface Scene {
  catalog: CatalogEditor;
  client: S3Client;
  key: string;
}

interface RowAttack {
  name: string;
  sizeBytes: number;
  apply(scene: Scene): Promise<void>;
  /** Where the altered row is to be met, if not where it was. */
  metAt?: string;
}

const timeoutMs = 60_000;
const bucket = 'rows';
const inline = 3000;
const stored = 300 * KiB;

/** Sets columns of the object's row, by SQL. */
function set(assignment: string): RowAttack['apply'] {
  return async ({ catalog, key }) => {
    expect(await catalog.run(`UPDATE versions SET ${assignment} WHERE key = ?`, key)).toBe(1);
  };
}

/**
 * Overwrites or deletes an object through the gateway, and puts its old row back behind its back.
 */
function putBack(change: 'overwrite' | 'delete', insert: string): RowAttack['apply'] {
  return async ({ catalog, client, key }) => {
    const path = `/${bucket}/${key}`;
    await catalog.run('CREATE TEMP TABLE old AS SELECT * FROM versions WHERE key = ?', key);
    if (change === 'delete') await client.send('DELETE', path);
    else await client.send('PUT', path, { body: Buffer.from('the new content') });
    for (const statement of insert.split(';')) await catalog.run(statement);
    await catalog.run('DROP TABLE old');
  };
}

const olderRow = `DELETE FROM versions WHERE key = (SELECT key FROM old);
  INSERT INTO versions SELECT * FROM old`;
const newerSeq = `DELETE FROM versions WHERE key = (SELECT key FROM old);
  UPDATE old SET seq = (SELECT max(idx) + 1 FROM records);
  INSERT INTO versions SELECT * FROM old`;

const columns = [
  ['size', 'size = size - 1'],
  ['ETag', "etag = 'd41d8cd98f00b204e9800998ecf8427e'"],
  ['SHA-256', 'sha256 = zeroblob(32)'],
  ['class', "class = 'COLD'"],
  ['owner', "owner = 'somebody'"],
  ['time', 'created_ms = created_ms + 1000'],
  ['metadata', `attributes = json_set(attributes, '$.metadata.colour', 'red')`],
  ['key epoch', 'epoch = 77'],
  ['MAC of the manifest', 'manifest_mac = zeroblob(32)'],
  ['MAC of the row', 'row_mac = zeroblob(32)'],
] as const;

const attacks: RowAttack[] = [
  ...columns.flatMap(([name, assignment]) => [
    { name: `the ${name} of a small object is changed`, sizeBytes: inline, apply: set(assignment) },
    { name: `the ${name} of a large object is changed`, sizeBytes: stored, apply: set(assignment) },
  ]),
  {
    name: 'the manifest is replaced by that of another object of the tenant',
    sizeBytes: stored,
    apply: set("manifest = (SELECT manifest FROM versions WHERE key = 'untouched')"),
  },
  {
    name: 'manifest and size are cut by a whole chunk',
    sizeBytes: stored,
    apply: async ({ catalog, key }) => {
      const [run] = await catalog.runsOf(bucket, key);
      if (!run) throw new Error('no run');
      const length = 256 * KiB;
      const manifest = encodeManifest([{ ...run, length }]);
      const sql = 'UPDATE versions SET size = ?, manifest = ? WHERE key = ?';
      await catalog.run(sql, length, manifest, key);
    },
  },
  {
    name: 'all of the row but its place is replaced by that of another object',
    sizeBytes: stored,
    apply: set(`(size, etag, sha256, class, owner, created_ms, manifest, attributes, epoch,
      manifest_mac, row_mac) = (SELECT size, etag, sha256, class, owner, created_ms, manifest,
      attributes, epoch, manifest_mac, row_mac FROM versions WHERE key = 'untouched')`),
  },
  {
    name: 'the row is moved to another key',
    sizeBytes: stored,
    apply: set("key = 'moved'"),
    metAt: 'moved',
  },
  {
    name: 'an overwritten version is put back',
    sizeBytes: stored,
    apply: putBack('overwrite', olderRow),
  },
  {
    name: 'an overwritten version is put back as a newer one',
    sizeBytes: stored,
    apply: putBack('overwrite', newerSeq),
  },
  {
    name: 'a deleted object is put back',
    sizeBytes: inline,
    apply: putBack('delete', olderRow),
  },
  {
    name: 'a deleted object is put back as a newer one',
    sizeBytes: stored,
    apply: putBack('delete', newerSeq),
  },
];

const keyOf = ({ name }: RowAttack): string => name.replaceAll(' ', '-');
const metAt = (attack: RowAttack): string => attack.metAt ?? keyOf(attack);

/** `start` gives a gateway that stores what it is sent in one kind of store. */
export function describeRowAttacks(title: string, start: () => Promise<AttackTarget>): void {
  describe(title, { timeout: timeoutMs }, () => {
    let target: AttackTarget;
    let client: S3Client;
    let catalog: CatalogEditor;
    let refused = 0;

    beforeAll(async () => {
      target = await start();
      client = new S3Client(target.gateway);
      catalog = new CatalogEditor(target.gateway.dataDir);
      expect((await client.send('PUT', `/${bucket}`)).status).toBe(200);
      await put('untouched', stored);
    }, timeoutMs);

    afterAll(async () => {
      catalog?.close();
      client?.close();
      await target?.stop();
    }, timeoutMs);

    async function put(key: string, sizeBytes: number): Promise<void> {
      const headers = { 'x-amz-meta-colour': 'blue' };
      const body = makeContent(sizeBytes, sizeBytes).bytes;
      const { status } = await client.send('PUT', `/${bucket}/${key}`, { headers, body });
      expect(status).toBe(200);
    }

    async function expectRefused(
      method: string,
      key: string,
      headers: Record<string, string> = {},
    ): Promise<void> {
      const received = await receive(client, `/${bucket}/${key}`, headers, method);
      expect(received.status).toBe(500);
      const told = received.bytes.toString();
      if (method === 'HEAD') expect(told).toBe('');
      else expect(told).toContain('<Code>BursarIntegrityError</Code>');
      for (const name of ['etag', 'last-modified', 'x-amz-meta-colour']) {
        expect(received.headers[name]).toBeUndefined();
      }
      const [record] = await readRecords(client, String(received.headers['x-amz-request-id']));
      expect(record).toMatchObject({ status: 500, error: 'BursarIntegrityError', bytesOut: 0 });
      refused++;
      expect(await readFailures(client)).toEqual({ catalog: { row: refused } });
    }

    it.each(attacks)('nothing is told of an object when $name', async (attack) => {
      const key = keyOf(attack);
      await put(key, attack.sizeBytes);
      await attack.apply({ catalog, client, key });
      await expectRefused('GET', metAt(attack));
      await expectRefused('GET', metAt(attack), { range: 'bytes=0-9' });
      await expectRefused('HEAD', metAt(attack));
      const source = { 'x-amz-copy-source': `/${bucket}/${metAt(attack)}` };
      await expectRefused('PUT', 'copy', source);
    });

    it('the verification finds each attacked row, and no other', async () => {
      const { findings } = await verifyAll(client);
      const found = findings.map(({ key, kind }) => `${key}: ${kind}`);
      expect(found.sort()).toEqual(attacks.map((one) => `${metAt(one)}: row`).sort());
      const failures = { catalog: { row: refused + attacks.length } };
      expect(await readFailures(client)).toEqual(failures);
    });

    it('an attacked object can be overwritten, and is whole again', async () => {
      for (const attack of attacks) {
        await put(metAt(attack), attack.sizeBytes);
        const received = await receive(client, `/${bucket}/${metAt(attack)}`);
        const content = makeContent(attack.sizeBytes, attack.sizeBytes).bytes;
        expect(received.bytes.equals(content)).toBe(true);
      }
    });
  });
}
