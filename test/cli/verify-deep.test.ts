// `bursar verify deep`: finds nothing where nothing was altered, and names what was.
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor, flipBit, StoredExtents } from '../tooling/attacks.ts';
import { type Outcome, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const keys = {
  accessKeyId: 'DEEPTESTACCESSKEY000',
  secretAccessKey: 'a-secret-of-the-operator-0123456789',
};
const rootKeys = {
  BURSAR_ROOT_ACCESS_KEY: keys.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: keys.secretAccessKey,
};

/** Of all three tables of versions. */
const contents = `version_id, is_marker, size, etag, sha256, class, owner, created_ms, manifest,
  attributes, epoch, manifest_mac, row_mac, billed`;
const columns = `bucket_id, key, seq, ${contents}`;

let place: Workplace;
/** A copy that the test may alter. */
let copy: string;
/** The data folder when it had fewer records. */
let older: string;

beforeAll(async () => {
  place = new Workplace();
  copy = join(place.folder, 'copy');
  older = join(place.folder, 'older');
  // No sweep comes between, but for that at each start: what is superseded then stays.
  await serving(async (client) => {
    await send(client, 'PUT', '/data');
    await send(client, 'PUT', '/data/kept', 'first');
    await send(client, 'PUT', '/data/gone', 'short-lived');
    await send(client, 'DELETE', '/data/gone');
    await send(client, 'DELETE', '/data/never-there');
  });
  cpSync(place.data, older, { recursive: true });
  await serving(async (client) => {
    await send(client, 'PUT', '/data/large', Buffer.alloc(200_000, 'x'));
    // Of a bucket that is gone, and another has its name; and of a copy.
    for (const method of ['PUT', 'DELETE', 'PUT']) {
      if (method === 'DELETE') await send(client, method, '/other/x');
      await send(client, method, '/other');
      if (method === 'PUT') await send(client, method, '/other/x', 'x');
    }
    const headers = { 'x-amz-copy-source': '/data/large' };
    expect((await client.send('PUT', '/other/copy', { headers })).status).toBe(200);
    // More than a tile of records.
    for (let i = 0; i < 300; i += 20) {
      const some = Array.from({ length: 20 }, (_, j) => `/data/many/${i + j}`);
      await Promise.all(some.map((path) => send(client, 'PUT', path, path)));
    }
    await makeVersions(client);
    // Last, when the sweep at the start is long over.
    await send(client, 'PUT', '/data/kept', 'second');
  });
});

/** In a bucket that keeps them: an old one, a marker, one that was changed and one that ended. */
async function makeVersions(client: S3Client): Promise<void> {
  await send(client, 'PUT', '/all');
  await send(client, 'PUT', '/all/key', 'plain');
  await subresource(client, '/all', 'versioning', versioning);
  await subresource(client, '/all', 'tagging', tagging('of the bucket'), 204);
  await send(client, 'PUT', '/all/key', 'second');
  await subresource(client, '/all/key', 'tagging', tagging('first'));
  await subresource(client, '/all/key', 'tagging', tagging('last'));
  const third = await client.send('PUT', '/all/key', { body: Buffer.from('third') });
  const query: [string, string][] = [['versionId', String(third.headers['x-amz-version-id'])]];
  expect((await client.send('DELETE', '/all/key', { query })).status).toBe(204);
  await send(client, 'DELETE', '/all/key');
}

const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

function tagging(value: string): string {
  const tag = `<Tag><Key>k</Key><Value>${value}</Value></Tag>`;
  return `<Tagging><TagSet>${tag}</TagSet></Tagging>`;
}

async function subresource(
  client: S3Client,
  path: string,
  name: string,
  document: string,
  status = 200,
): Promise<void> {
  const query: [string, string][] = [[name, '']];
  const headers = { 'content-md5': createHash('md5').update(document).digest('base64') };
  const sending = { query, headers, body: Buffer.from(document) };
  expect((await client.send('PUT', path, sending)).status).toBe(status);
}

afterAll(() => place.remove());

async function serving(work: (client: S3Client) => Promise<void>): Promise<void> {
  const served = await place.serve(['--sweep-interval', '1h'], rootKeys);
  const client = new S3Client({ endpoint: served.endpoint, ...keys });
  await work(client);
  client.close();
  expect(await served.stop()).toBe(0);
}

async function send(
  client: S3Client,
  method: string,
  path: string,
  body?: string | Buffer,
): Promise<void> {
  const answer = await client.send(method, path, body ? { body: Buffer.from(body) } : {});
  expect(answer.status).toBeLessThan(300);
}

function verify(folder: string, ...flags: string[]): Promise<Outcome> {
  return place.run(['verify', 'deep', '--data', folder, ...flags]);
}

/** What it says of a copy that was altered. */
async function findAltered(alter: (catalog: CatalogEditor) => Promise<unknown>): Promise<Outcome> {
  rmSync(copy, { recursive: true, force: true });
  cpSync(place.data, copy, { recursive: true });
  const catalog = new CatalogEditor(copy);
  await alter(catalog);
  catalog.close();
  const outcome = await verify(copy);
  expect(outcome.code).toBe(1);
  return outcome;
}

async function seqOf(catalog: CatalogEditor, key: string, table = 'versions'): Promise<number> {
  const sql = `SELECT seq FROM ${table} WHERE key = ? ORDER BY seq LIMIT 1`;
  const row = await catalog.get<{ seq: number }>(sql, key);
  if (!row) throw new Error(`there is no ${key}`);
  return row.seq;
}

describe('bursar verify deep', () => {
  it('finds nothing where nothing was altered, and says what it compared with', async () => {
    const { code, stdout } = await verify(place.data);
    expect(stdout).toMatch(/^compared 3\d\d records with the log, and 310 versions/);
    expect(stdout).toMatch(/compared with \S+log-checkpoint, of 3\d\d records\n$/);
    expect(code).toBe(0);
  });

  it('reads a folder that a gateway is writing to', async () => {
    rmSync(copy, { recursive: true, force: true });
    cpSync(place.data, copy, { recursive: true });
    const served = await place.serve(['--data', copy], rootKeys);
    const client = new S3Client({ endpoint: served.endpoint, ...keys });
    const verified = verify(copy, '--json');
    for (let i = 0; i < 100; i++) await send(client, 'PUT', `/data/kept`, `text ${i}`);
    const { code, stdout } = await verified;
    expect(JSON.parse(stdout)).toMatchObject({ differences: 0, storesSkipped: [] });
    expect(code).toBe(0);
    client.close();
    await served.stop();
  });

  it('changes nothing, and makes no folder', async () => {
    const { code, stderr } = await verify(join(place.folder, 'nowhere'));
    expect(stderr).toContain('there is no');
    expect(code).toBe(1);
  });

  describe('of records that were altered together', () => {
    let said: Outcome;
    beforeAll(async () => {
      said = await findAltered(async (catalog) => {
        await catalog.run(
          `UPDATE records SET record = replace(record, '"source":"127', '"source":"128')
           WHERE idx = 5`,
        );
        await catalog.run("UPDATE records SET salt = NULL, record = '' WHERE idx = 6");
        await catalog.run('DELETE FROM records WHERE idx = 9');
        await catalog.run(
          `INSERT INTO records SELECT 400, time_ms, tenant, bucket_tenant,
           commitment, salt, record, roots FROM records WHERE idx = 100`,
        );
        await catalog.run('UPDATE records SET time_ms = time_ms + 1 WHERE idx = 290');
        await catalog.run('UPDATE records SET idx = -1 WHERE idx = 107');
        await catalog.run('UPDATE records SET idx = 107 WHERE idx = 108');
        await catalog.run('UPDATE records SET idx = 108 WHERE idx = -1');
      });
    });

    it.each([
      ['an altered one', 'record 5: it is not what its leaf was made of'],
      ['one erased by nobody', 'record 6: it was erased, and no record says by whom'],
      ['one that was removed', 'record 9: it is missing'],
      ['one inserted at the end', 'record 400: it says that it is record 100'],
      ['one given another tenant', 'record 290: its row says another tenant or time than its text'],
      ['those that were exchanged', 'record 107: it says that it is record 108'],
      ['that their leaves are others', 'record 107: its leaf is not the one in the tree'],
    ])('names %s', (_, difference) => {
      expect(said.stdout).toContain(difference);
      expect(said.stderr).toMatch(/there are \d+ differences/);
    });
  });

  it('names records that were removed from the end', async () => {
    const { stdout, stderr } = await findAltered((catalog) =>
      catalog.run('DELETE FROM records WHERE idx > 290'),
    );
    expect(stdout).toContain('records were signed, and 291 are here');
    expect(stderr).toMatch(/there (is a difference|are \d+ differences)/);
  });

  it('names a tile that was altered', async () => {
    const { stdout } = await findAltered((catalog) =>
      catalog.run(
        'UPDATE log_tiles SET hashes = zeroblob(32) || substr(hashes, 33) WHERE level = 0',
      ),
    );
    expect(stdout).toContain('tile 0/0 of the log: it is not what the records below it make');
  });

  describe('of versions that were altered together', () => {
    let said: Outcome;
    beforeAll(async () => {
      said = await findAltered(async (catalog) => {
        await catalog.run("UPDATE versions SET size = size + 1 WHERE key = 'large'");
        await catalog.run("DELETE FROM versions WHERE key = 'many/0'");
        const old = await seqOf(catalog, 'kept', 'ended_versions');
        await catalog.run("DELETE FROM versions WHERE key = 'kept'");
        await catalog.run(
          `INSERT INTO versions SELECT ${columns} FROM ended_versions WHERE seq = ?`,
          old,
        );
        await catalog.run('DELETE FROM ended_versions WHERE seq = ?', old);
        await catalog.run('DELETE FROM superseded WHERE seq = ?', old);
        ended = await seqOf(catalog, 'many/100');
        await catalog.run("DELETE FROM versions WHERE key = 'many/100'");
        await catalog.run('INSERT INTO superseded VALUES (?, ?)', ended, ended + 3);
        await catalog.run(`INSERT INTO versions SELECT bucket_id, 'smuggled', 3, ${contents}
          FROM versions WHERE key = 'copy'`);
        await catalog.run("UPDATE versions SET version_id = NULL WHERE key = 'key'");
        await catalog.run("UPDATE versions SET is_marker = 1 WHERE key = 'many/200'");
        await catalog.run(`UPDATE noncurrent_versions
          SET attributes = replace(attributes, 'last', 'first') WHERE key = 'key'`);
      });
    });
    let ended: number;

    it('names one whose row was altered', () => {
      expect(said.stdout).toMatch(/version \d+ of large: its size is not that of its record/);
      expect(said.stdout).toMatch(/version \d+ of large: .* not authentic/);
    });

    it('names an object that was deleted outright, with all that the catalog knew of it', () => {
      expect(said.stdout).toMatch(
        /version \d+ of many\/0: it is not in the catalog, and no record ended it/,
      );
    });

    it('names an older version that was put back, its end forgotten', () => {
      expect(said.stdout).toMatch(
        /version \d+: record \d+ ended it, and the catalog has it as never ended/,
      );
      expect(said.stdout).toMatch(
        /version \d+ of kept: it is not in the catalog, and no record ended it/,
      );
    });

    it('names one that was deleted and said to be ended by a record that did not', () => {
      expect(said.stdout).toContain(
        `version ${ended}: it was ended by record ${ended + 3}, which does not say so`,
      );
    });

    it('names one that no record made', () => {
      expect(said.stdout).toContain('version 3 of smuggled: no record made it');
    });

    it('names one under another id, and one that was made a marker', () => {
      expect(said.stdout).toMatch(/version \d+ of key: its version id is not that of its record/);
      expect(said.stdout).toMatch(
        /version \d+ of many\/200: its being a delete marker is not that of its/,
      );
    });

    it('names one that has not what the last record gave it', () => {
      expect(said.stdout).toMatch(
        /version \d+ of key: its attributes are not those that record \d+ gave it/,
      );
    });
  });

  it('names a noncurrent version deleted outright, and one that no record made', async () => {
    const gone = await findAltered((catalog) =>
      catalog.run("DELETE FROM noncurrent_versions WHERE version_id IS NULL AND key = 'key'"),
    );
    expect(gone.stdout).toMatch(
      /version \d+ of key: it is not in the catalog, and no record ended it/,
    );
    const smuggled = await findAltered((catalog) =>
      catalog.run(`INSERT INTO noncurrent_versions SELECT bucket_id, key, 3, ${contents},
        superseded_seq, superseded_ms FROM noncurrent_versions WHERE version_id IS NULL`),
    );
    expect(smuggled.stdout).toContain('version 3 of key: no record made it');
  });

  it('names a version that is in a table where it does not belong', async () => {
    const { stdout } = await findAltered(async (catalog) => {
      await catalog.run("DELETE FROM versions WHERE key = 'key'");
      await catalog.run(`INSERT INTO ended_versions SELECT * FROM noncurrent_versions
        WHERE version_id IS NULL`);
      await catalog.run('DELETE FROM noncurrent_versions WHERE version_id IS NULL');
    });
    expect(stdout).toMatch(/version \d+ of key: its row is among those that are ended/);
    expect(stdout).toMatch(/version \d+ of key: it is kept as noncurrent, and no newer one is/);
  });

  it('names buckets that are not what they were set to be', async () => {
    const { stdout } = await findAltered(async (catalog) => {
      await catalog.run("UPDATE buckets SET versioning = 'Unversioned' WHERE name = 'all'");
      await catalog.run("UPDATE buckets SET object_lock = '{}' WHERE name = 'data'");
      await catalog.run(`INSERT INTO buckets (tenant, name, owner, created_ms)
        VALUES ('default', 'smuggled', 'admin', 1)`);
    });
    expect(stdout).toContain('bucket default/all: what is set of it');
    expect(stdout).toContain('bucket default/data: what is set of it');
    expect(stdout).toContain('bucket default/smuggled: no record made it');
  });

  it('names a bucket whose settings were deleted', async () => {
    const { stdout } = await findAltered((catalog) => catalog.run('DELETE FROM bucket_settings'));
    expect(stdout).toContain('bucket default/all: what is set of it is not what record');
  });

  it('names a stored byte that was altered', async () => {
    const { stdout } = await findAltered(async (catalog) => {
      const [run] = await catalog.runsOf('data', 'large');
      if (!run) throw new Error('the object has no extent');
      StoredExtents.ofDataFolder(copy).edit(run.id, (sealed) => flipBit(sealed, 1000));
    });
    expect(stdout).toMatch(/version \d+ of large: chunk 0 of extent/);
  });

  it('finds by the kept checkpoint that a whole database was put back from a backup', async () => {
    const { stdout } = await findAltered(async () => {
      cpSync(join(older, 'bursar.db'), join(copy, 'bursar.db'));
    });
    expect(stdout).toMatch(/log-checkpoint: 3\d\d records were signed, and \d+ are here/);
  });

  it('finds by a checkpoint kept elsewhere that a whole folder was put back', async () => {
    const kept = join(place.folder, 'elsewhere');
    writeFileSync(kept, readFileSync(join(place.data, 'log-checkpoint')));
    expect((await verify(older)).code).toBe(0);
    const { code, stdout } = await verify(older, '--checkpoint', kept);
    expect(stdout).toMatch(/elsewhere: 3\d\d records were signed, and \d+ are here/);
    expect(code).toBe(1);
  });

  it('believes no checkpoint that was altered', async () => {
    const { stdout } = await findAltered(async () => {
      const file = join(copy, 'log-checkpoint');
      const [origin, , ...rest] = readFileSync(file, 'utf8').split('\n');
      writeFileSync(file, [origin, '12', ...rest].join('\n'));
    });
    expect(stdout).toContain('log-checkpoint: a signature of its checkpoint is forged or damaged');
  });
});
