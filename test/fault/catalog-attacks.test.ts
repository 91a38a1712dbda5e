// Attacks on the catalog that take more than one row of one object: rows that change their places,
// parts and uploads before their completion, conditions on damaged rows; and that clearing damage
// away harms nothing else. The gateway serves meanwhile; each attack undoes itself.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CatalogEditor } from '../tooling/attacks.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { KiB, makeContent } from './content.ts';
import { type Failures, makeTenant, readFailures, readRecords } from './integrity-client.ts';
import { sleep } from './plain-start.ts';
import { type Answer, S3Client } from './s3-client.ts';

const timeoutMs = 60_000;
const inline = 3000;
const stored = 300 * KiB;

let gateway: ServedGateway;
let client: S3Client;
/** Of another tenant. */
let foreign: S3Client;
let catalog: CatalogEditor;

beforeAll(async () => {
  gateway = await startServedGateway({
    args: ['--sweep-interval', '100ms', '--sweep-grace', '0s'],
  });
  client = new S3Client(gateway);
  foreign = await makeTenant(client, gateway, 'other');
  catalog = new CatalogEditor(gateway.dataDir);
  for (const bucket of ['first', 'second']) await client.send('PUT', `/${bucket}`);
  await foreign.send('PUT', '/first');
}, timeoutMs);

afterAll(async () => {
  catalog?.close();
  client?.close();
  foreign?.close();
  await gateway?.stop();
}, timeoutMs);

async function put(path: string, seed: number, sizeBytes = stored, by = client): Promise<void> {
  const { bytes: body } = makeContent(seed, sizeBytes);
  expect((await by.send('PUT', path, { body })).status).toBe(200);
}

async function expectContent(path: string, seed: number, sizeBytes = stored): Promise<void> {
  const { status, body } = await client.send('GET', path);
  expect(status).toBe(200);
  expect(body.equals(makeContent(seed, sizeBytes).bytes)).toBe(true);
}

/** The answer is the refusal and nothing else, and its record says so. */
async function expectDamaged(answer: Answer, by = client): Promise<void> {
  expect(answer.status).toBe(500);
  expect(answer.headers.etag).toBeUndefined();
  const requestId = String(answer.headers['x-amz-request-id']);
  const told = answer.body.toString();
  if (told !== '') expect(told).toContain('<Code>BursarIntegrityError</Code>');
  const [record] = await readRecords(by, requestId);
  expect(record).toMatchObject({ status: 500, error: 'BursarIntegrityError' });
}

async function expectUnreadable(path: string, by = client): Promise<void> {
  await expectDamaged(await by.send('GET', path), by);
  await expectDamaged(await by.send('HEAD', path), by);
}

const idOf = (bucket: string, tenant = 'default'): string =>
  `(SELECT id FROM buckets WHERE name = '${bucket}' AND tenant = '${tenant}')`;

describe('rows in other places', { timeout: timeoutMs }, () => {
  it('two rows that change places are both refused, and so is a listing of them', async () => {
    await put('/first/swap-a', 1);
    await put('/first/swap-b', 2);
    const swap = async (): Promise<void> => {
      for (const [from, to] of ['ax', 'ba', 'xb'].map((pair) => [...pair])) {
        const sql = `UPDATE versions SET key = 'swap-${to}' WHERE key = 'swap-${from}'`;
        expect(await catalog.run(sql)).toBe(1);
      }
    };
    await swap();
    await expectUnreadable('/first/swap-a');
    await expectUnreadable('/first/swap-b');
    const list: [string, string][] = [
      ['list-type', '2'],
      ['prefix', 'swap-'],
    ];
    await expectDamaged(await client.send('GET', '/first', { query: list }));
    await swap();
    await expectContent('/first/swap-a', 1);
    expect((await client.send('GET', '/first', { query: list })).status).toBe(200);
  });

  it('a row is refused in another bucket, of the same tenant or of another', async () => {
    await put('/first/moves', 3);
    for (const [place, by, path] of [
      [idOf('second'), client, '/second/moves'],
      [idOf('first', 'other'), foreign, '/first/moves'],
    ] as const) {
      await catalog.run(`UPDATE versions SET bucket_id = ${place} WHERE key = 'moves'`);
      await expectUnreadable(path, by);
      expect((await client.send('GET', '/first/moves')).status).toBe(404);
    }
    await catalog.run(`UPDATE versions SET bucket_id = ${idOf('first')} WHERE key = 'moves'`);
    await expectContent('/first/moves', 3);
  });

  it('a row that is copied to another key is refused there, and good where it was', async () => {
    await put('/first/original', 4, inline);
    await catalog.run(`CREATE TEMP TABLE copied AS SELECT * FROM versions WHERE key = 'original'`);
    await catalog.run("UPDATE copied SET key = 'copied'");
    await catalog.run('INSERT INTO versions SELECT * FROM copied');
    await catalog.run('DROP TABLE copied');
    await expectUnreadable('/first/copied');
    await expectContent('/first/original', 4, inline);
    await catalog.run("DELETE FROM versions WHERE key = 'copied'");
  });

  it.each([inline, stored])(
    'another tenant’s manifest gives none of its %i bytes',
    async (sizeBytes) => {
      await put('/first/theirs', 5, sizeBytes, foreign);
      await put('/first/ours', 6, sizeBytes);
      const theirs = `(SELECT manifest FROM versions WHERE key = 'theirs')`;
      const theirMac = `(SELECT manifest_mac FROM versions WHERE key = 'theirs')`;
      await catalog.run(
        `UPDATE versions SET manifest = ${theirs}, manifest_mac = ${theirMac} WHERE key = 'ours'`,
      );
      await expectUnreadable('/first/ours');
      await client.send('DELETE', '/first/ours');
      await foreign.send('DELETE', '/first/theirs');
    },
  );

  it.each(['overwrite', 'delete'])(
    'an older small object comes back with its bytes after an %s, and is refused',
    async (change) => {
      const key = `older-${change}`;
      await put(`/first/${key}`, 7, inline);
      await catalog.run(`CREATE TEMP TABLE row AS SELECT * FROM versions WHERE key = '${key}'`);
      await catalog.run(`CREATE TEMP TABLE body AS SELECT * FROM extents
        WHERE id = (SELECT substr(manifest, 1, 16) FROM row)`);
      if (change === 'overwrite') await put(`/first/${key}`, 8, inline);
      else await client.send('DELETE', `/first/${key}`);
      await catalog.run(`DELETE FROM versions WHERE key = '${key}'`);
      await catalog.run('INSERT INTO versions SELECT * FROM row');
      await catalog.run('INSERT OR REPLACE INTO extents SELECT * FROM body');
      await expectUnreadable(`/first/${key}`);
      await catalog.run('DROP TABLE row');
      await catalog.run('DROP TABLE body');
      expect((await client.send('DELETE', `/first/${key}`)).status).toBe(204);
    },
  );
});

describe('a condition on a damaged row', { timeout: timeoutMs }, () => {
  it('is refused, and changes nothing', async () => {
    await put('/first/conditional', 9, inline);
    const made = await client.send('HEAD', '/first/conditional');
    await catalog.run("UPDATE versions SET etag = 'changed' WHERE key = 'conditional'");
    for (const headers of [
      { 'if-match': '"changed"' },
      { 'if-match': String(made.headers.etag) },
    ]) {
      const body = Buffer.from('new');
      await expectDamaged(await client.send('PUT', '/first/conditional', { headers, body }));
      await expectDamaged(await client.send('DELETE', '/first/conditional', { headers }));
    }
    const etag = String(made.headers.etag).replaceAll('"', '');
    await catalog.run('UPDATE versions SET etag = ? WHERE key = ?', etag, 'conditional');
    await expectContent('/first/conditional', 9, inline);
  });
});

describe('clearing damage away', { timeout: timeoutMs }, () => {
  const healthy = "(SELECT manifest FROM versions WHERE key = 'healthy')";

  /** Waits until the sweeper has forgotten all versions that ended. */
  async function purged(): Promise<void> {
    const sql = 'SELECT count(*) AS n FROM ended_versions';
    while ((await catalog.get<{ n: number }>(sql))?.n !== 0) await sleep(20);
  }

  async function expectHealthy(seed: number): Promise<void> {
    const extent = await catalog.get(`SELECT state, refs FROM extents
      WHERE id = substr(${healthy}, 1, 16)`);
    expect(extent).toEqual({ state: 1, refs: 1 });
    await expectContent('/first/healthy', seed);
  }

  it.each(['DELETE', 'PUT'] as const)(
    'by a %s spares the object whose extents the damaged row names',
    async (method) => {
      await put('/first/healthy', 10);
      await put('/first/damaged', 11);
      await catalog.run(`UPDATE versions SET manifest = ${healthy} WHERE key = 'damaged'`);
      await expectUnreadable('/first/damaged');
      const body = Buffer.from('good again');
      await client.send(method, '/first/damaged', method === 'PUT' ? { body } : {});
      await purged();
      await expectHealthy(10);
      const { status } = await client.send('GET', '/first/damaged');
      expect(status).toBe(method === 'PUT' ? 200 : 404);
    },
  );

  it('by aborting an upload spares it as well', async () => {
    await put('/first/healthy', 12);
    const uploadId = await begin('/first/upload');
    await putPart('/first/upload', uploadId, 1, 13);
    await catalog.run(`UPDATE parts SET manifest = ${healthy} WHERE upload_id = ?`, uploadId);
    await catalog.run("UPDATE uploads SET class = 'COLD' WHERE id = ?", uploadId);
    const query: [string, string][] = [['uploadId', uploadId]];
    expect((await client.send('DELETE', '/first/upload', { query })).status).toBe(204);
    await expectHealthy(12);
  });
});

async function begin(path: string, headers: Record<string, string> = {}): Promise<string> {
  const { body } = await client.send('POST', path, { query: [['uploads', '']], headers });
  return /<UploadId>([^<]+)</.exec(body.toString())?.[1] ?? '';
}

async function putPart(path: string, uploadId: string, number: number, seed: number) {
  const query: [string, string][] = [
    ['partNumber', String(number)],
    ['uploadId', uploadId],
  ];
  const { headers } = await client.send('PUT', path, {
    query,
    body: makeContent(seed, stored).bytes,
  });
  return String(headers.etag);
}

function complete(path: string, uploadId: string, etag: string): Promise<Answer> {
  const part = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
  const body = Buffer.from(`<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`);
  return client.send('POST', path, { query: [['uploadId', uploadId]], body });
}

describe('an upload that was changed before its completion', { timeout: timeoutMs }, () => {
  const swapped = "manifest = (SELECT manifest FROM versions WHERE key = 'prey')";
  const attacks: [string, string][] = [
    ['size of a part', 'UPDATE parts SET size = size - 1 WHERE upload_id = ?'],
    [
      'ETag of a part',
      "UPDATE parts SET etag = 'd41d8cd98f00b204e9800998ecf8427e' WHERE upload_id = ?",
    ],
    ['checksum of a part', "UPDATE parts SET checksum = 'AAAAAA==' WHERE upload_id = ?"],
    ['manifest of a part', `UPDATE parts SET ${swapped} WHERE upload_id = ?`],
    ['upload of a part', "UPDATE parts SET upload_id = ? WHERE upload_id = 'another'"],
    [
      'metadata',
      `UPDATE uploads SET attributes =
        json_set(attributes, '$.object.metadata.colour', 'red') WHERE id = ?`,
    ],
    ['class', "UPDATE uploads SET class = 'COLD' WHERE id = ?"],
    ['initiator', "UPDATE uploads SET initiator = 'other/boss' WHERE id = ?"],
    ['epoch', 'UPDATE uploads SET epoch = 2 WHERE id = ?'],
  ];

  beforeAll(() => put('/first/prey', 14));

  it.each(attacks)('by its %s makes no object', async (name, sql) => {
    const path = `/first/changed-${name.replaceAll(' ', '-')}`;
    const uploadId = await begin(path, { 'x-amz-meta-colour': 'blue' });
    let etag = await putPart(path, uploadId, 1, 15);
    if (name === 'upload of a part') {
      // Another upload's part is put in the place of this one's.
      const otherId = await begin('/first/another');
      etag = await putPart('/first/another', otherId, 1, 16);
      await catalog.run('DELETE FROM parts WHERE upload_id = ?', uploadId);
      await catalog.run('UPDATE parts SET upload_id = ? WHERE upload_id = ?', uploadId, otherId);
    } else await catalog.run(sql, uploadId);
    const query: [string, string][] = [['uploadId', uploadId]];
    await expectDamaged(await client.send('GET', path, { query }));
    await expectDamaged(await complete(path, uploadId, etag));
    expect((await client.send('GET', path)).status).toBe(404);
    expect((await client.send('DELETE', path, { query })).status).toBe(204);
  });

  it('by its key or its bucket is not found under either', async () => {
    const uploadId = await begin('/first/from');
    const etag = await putPart('/first/from', uploadId, 1, 17);
    await catalog.run("UPDATE uploads SET key = 'to' WHERE id = ?", uploadId);
    expect((await complete('/first/from', uploadId, etag)).status).toBe(404);
    await expectDamaged(await complete('/first/to', uploadId, etag));
    await catalog.run(`UPDATE uploads SET bucket_id = ${idOf('second')} WHERE id = ?`, uploadId);
    await expectDamaged(await complete('/second/to', uploadId, etag));
    expect((await client.send('GET', '/first/to')).status).toBe(404);
    expect((await client.send('GET', '/second/to')).status).toBe(404);
  });

  it('after its completion gives no answer made up by others', async () => {
    const uploadId = await begin('/first/done');
    const etag = await putPart('/first/done', uploadId, 1, 18);
    expect((await complete('/first/done', uploadId, etag)).status).toBe(200);
    const sql =
      "UPDATE uploads SET completed = json_set(completed, '$.etag', 'made-up') WHERE id = ?";
    await catalog.run(sql, uploadId);
    await expectDamaged(await complete('/first/done', uploadId, etag));
    await expectContent('/first/done', 18);
  });
});

it('each refusal was counted', async () => {
  const failures: Failures = await readFailures(client);
  expect(failures.catalog?.row).toBeGreaterThan(40);
  expect(Object.keys(failures)).toEqual(['catalog']);
});
