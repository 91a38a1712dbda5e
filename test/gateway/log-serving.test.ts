// The public log over HTTP: to the letter of C2SP tlog-tiles, for anybody, and recorded by nobody.
import { calculateJwkThumbprint } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parseCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { parseEntries } from '#bursar/audit/log/entries.js';
import { hashLeaf, rootOf } from '#bursar/audit/log/merkle.js';
import { parseNote, parseVerifier, verifyNote } from '#bursar/audit/log/note.js';
import { pathOfTile } from '#bursar/audit/log/tile-path.js';
import {
  type Answer,
  callNative,
  exchange,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 60_000 });

let target: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  await send(target, { method: 'PUT', path: '/raw' });
  const keys = Array.from({ length: 270 }, (_, i) => `<Object><Key>${i}</Key></Object>`);
  const body = `<Delete>${keys.join('')}</Delete>`;
  await send(target, { method: 'POST', path: '/raw', query: [['delete', '']], body });
});

afterAll(() => target?.stop());

const ask = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> =>
  exchange(target, method, `/_/log/${path}`, headers);

async function readHead() {
  const { text } = await ask('checkpoint');
  const note = parseNote(text);
  const checkpoint = parseCheckpoint(note?.text ?? '');
  if (!note || !checkpoint) throw new Error(`no checkpoint: ${text}`);
  return { note, ...checkpoint };
}

describe('the checkpoint', () => {
  it('is signed with the published key, is text, and is kept by no cache', async () => {
    const { status, headers } = await ask('checkpoint');
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([
      ...[200, 'text/plain; charset=utf-8', 'no-store'],
    ]);
    const { note, origin } = await readHead();
    const published = await ask('key');
    expect(published.headers['content-type']).toBe('text/plain; charset=utf-8');
    const key = parseVerifier(published.text.trimEnd());
    expect(key?.name).toBe(origin);
    expect(key && verifyNote(note, [key])).toHaveLength(1);
  });

  it('covers each record whose index was answered', async () => {
    for (let i = 0; i < 20; i++) {
      const { headers } = await send(target, { method: 'PUT', path: '/raw/k', body: `${i}` });
      const index = Number(headers['x-bursar-receipt']);
      await expect.poll(async () => (await readHead()).size).toBeGreaterThan(index);
    }
  });

  it('is what all tiles lead to, and these what all entries hash to', async () => {
    const { size, root } = await readHead();
    expect(size).toBeGreaterThan(256);
    const read = async (level: number | 'entries', index: number, width: number) => {
      const answer = await ask(pathOfTile({ level, index, width }));
      expect(answer.status).toBe(200);
      return answer.body;
    };
    expect(await rootOf({ readTile: read }, size)).toEqual(root);
    const entries = parseEntries(await read('entries', 0, 256)) ?? [];
    expect(Buffer.concat(entries.map(hashLeaf))).toEqual(await read(0, 0, 256));
  });
});

describe('a tile', () => {
  it.each(['tile/0/000', 'tile/0/001.p/3', 'tile/1/000.p/1', 'tile/entries/000'])(
    '%s is bytes that every cache may keep for ever',
    async (path) => {
      for (const method of ['GET', 'HEAD']) {
        const { status, headers } = await ask(path, {}, method);
        expect([status, headers['content-type'], headers['cache-control']]).toEqual([
          ...[200, 'application/octet-stream', 'public, max-age=31536000, immutable'],
        ]);
        expect(Number(headers['content-length'])).toBeGreaterThan(0);
      }
    },
  );

  it('of entries is compressed for who asks for that, and caches are told', async () => {
    const plain = await ask('tile/entries/000');
    const small = await ask('tile/entries/000', { 'accept-encoding': 'deflate, gzip' });
    expect(plain.headers).toMatchObject({ vary: 'accept-encoding' });
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(small.headers).toMatchObject({ vary: 'accept-encoding', 'content-encoding': 'gzip' });
    expect(small.body.length).toBeLessThan(plain.body.length);
    const none = await ask('tile/entries/000', { 'accept-encoding': 'gzip;q=0' });
    expect(none.body).toEqual(plain.body);
  });

  it.each([
    ...[
      'tile/0/001',
      'tile/0/000.p/0',
      'tile/0/000.p/256',
      'tile/0/000.p/01',
      'tile/0/0',
      'tile/0',
    ],
    ...['tile/00/000', 'tile/64/000.p/1', 'tile/2/000.p/1', 'tile/1/000.p/2', 'tile/0/x000/000'],
    ...['tile/0/999.p/1', 'tile/0/x999/x999/x999/x999/x999/999', 'tile/entries/999', 'tile/-1/000'],
    ...['tile/0/000.p', 'tile/0/000/', 'tile/0/000.p/1/', 'tile//0/000', 'tile/0/%30%30%30'],
    ...['tile/data/000', 'tile/0/001.p/255', 'tile/0/../../key', '', 'tile/', 'checkpoint/', 'Key'],
  ])('that is none, %s, is not there, and no cache keeps that', async (path) => {
    const { status, headers } = await ask(path);
    expect([status, headers['cache-control']]).toEqual([404, 'no-store']);
  });
});

describe('the keys', () => {
  it('are among those that the gateway publishes as JWKs, said to be of the log', async () => {
    const { text } = await exchange(target, 'GET', '/.well-known/jwks.json');
    const { keys } = JSON.parse(text) as { keys: Record<string, string>[] };
    const { origin } = await readHead();
    const published = parseVerifier((await ask('key')).text.trimEnd());
    const kid = await calculateJwkThumbprint(keys.at(-1) ?? {});
    expect(keys.slice(1)).toEqual([
      {
        ...{ crv: 'Ed25519', kty: 'OKP', x: published?.publicKey.toString('base64url') },
        ...{ use: 'sig', kid, log: origin },
      },
    ]);
  });

  it('are listed with their state; one that was revoked is published no more', async () => {
    const [first] = (await callNative(target, 'GET', '/_/v1/log/keys')).keys;
    expect(first).toMatchObject({ state: 'active', retiredAt: null, revokedAt: null, fromSize: 0 });
    await callNative(target, 'POST', '/_/v1/log/keys/rotations', { overlapSeconds: 600 });
    const lines = (await ask('key')).text.trimEnd().split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[1]).toBe(first.verifier);
    const keys = lines.flatMap((line) => parseVerifier(line) ?? []);
    expect(verifyNote((await readHead()).note, keys)).toHaveLength(2);
    const states = async () =>
      (await callNative(target, 'GET', '/_/v1/log')).keys.map(
        ({ state }: { state: string }) => state,
      );
    expect(await states()).toEqual(['active', 'overlap']);
    await callNative(target, 'DELETE', `/_/v1/log/keys/${first.id}`);
    expect(await states()).toEqual(['active', 'revoked']);
    expect((await ask('key')).text).toBe(`${lines[0]}\n`);
    const { text } = await exchange(target, 'GET', '/.well-known/jwks.json');
    expect(JSON.parse(text).keys).toHaveLength(2);
    const { note } = await readHead();
    expect(note.signatures).toHaveLength(1);
    expect(verifyNote(note, keys.slice(0, 1))).toHaveLength(1);
  });
});

describe('reading the log', () => {
  it('needs no credentials, leaves no record and makes the log no longer', async () => {
    const { headers } = await send(target, { method: 'PUT', path: '/raw/last', body: 'x' });
    const last = Number(headers['x-bursar-receipt']);
    await expect.poll(async () => (await readHead()).size).toBeGreaterThan(last);
    const before = await readHead();
    for (const path of ['checkpoint', 'key', 'tile/0/000', 'tile/entries/000', 'tile/0/999.p/1']) {
      expect((await ask(path)).headers['x-bursar-receipt']).toBeUndefined();
    }
    expect((await readHead()).size).toBe(before.size);
  });

  it('changes nothing by any other method', async () => {
    for (const method of ['PUT', 'POST', 'DELETE', 'PATCH']) {
      expect((await ask('checkpoint', {}, method)).status).toBe(404);
      expect((await ask('tile/0/000', {}, method)).status).toBe(404);
    }
  });

  it('is always answered while hundreds ask for parts of tiles, or told to slow down', async () => {
    const paths = Array.from({ length: 255 }, (_, i) => `tile/entries/000.p/${i + 1}`);
    const answers = await Promise.all([...paths, ...paths].map((path) => ask(path)));
    const statuses = new Set(answers.map(({ status }) => status));
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(statuses.has(200)).toBe(true);
    for (const { status, headers } of answers) {
      if (status === 503) expect(headers['retry-after']).toBeDefined();
    }
    expect((await send(target, { method: 'PUT', path: '/raw/k', body: 'x' })).status).toBe(200);
  });
});
