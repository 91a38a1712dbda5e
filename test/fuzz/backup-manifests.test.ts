// What whoever writes to a place of backups can put there: manifests and lists of any shape. At
// worst they are said to be damaged; and what is not exactly what was written is never taken for
// it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { readExtentLists } from '#bursar/backup/extents.js';
import { openFolderPlace } from '#bursar/backup/folder-place.js';
import {
  type Manifest,
  openManifest,
  parseManifest,
  sealManifest,
} from '#bursar/backup/manifest.js';
import { PieceSealer, PieceStore } from '#bursar/backup/pieces.js';
import { openKeys, type SealedKeys, sealKeys } from '#bursar/backup/sealed-keys.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { keyring } from '../ledger/fixture.ts';
import {
  fuzz,
  fuzzMs,
  fuzzTimeoutMs,
  randomBelow,
  randomBytesOf,
  randomOf,
} from './seeded-random.ts';

const base = fuzzMs > 0 ? Date.now() % 1e9 : 67;
const sealer = new PieceSealer(keyring);
const folder = mkdtempSync(join(tmpdir(), 'bursar-fuzz-'));
afterAll(() => rmSync(folder, { recursive: true }));

const id = '20261122T153012123Z-0123abcd';
const name = 'ab'.repeat(32);
const file = { sizeBytes: 5_000_000, lists: [name, name] };
const whole: Manifest = {
  ...{ id, madeBy: '0.1.0', timeMs: 1_763_800_000_000, finishedMs: 1_763_800_001_000 },
  ...{ instance: 'cd'.repeat(16), schema: 9, records: 4, checkpoint: 'log\n4\nroot\n' },
  ...{ database: file, files: { credentials: file } },
  extents: { count: 3, bytes: 900, missing: 0, lists: [name] },
  keys: { form: 'scrypt', cost: 2 ** 14, salt: 'c2FsdA==', sealed: 'c2VhbGVk' },
  epoch: keyring.currentEpoch,
};

/** Arrays in arrays: what is turned into text by going down runs out of stack. */
const deep = (): unknown => {
  let value: unknown = [];
  for (let i = 0; i < 20_000; i++) value = [value];
  return value;
};
const junk: (() => unknown)[] = [
  ...[null, '', 'x', 0, -1, 1.5, 2 ** 53, 8.64e15 + 1, 65_536, true, [], {}, '\u001b[2J'].map(
    (value) => () => value,
  ),
  ...[[null], [name.slice(2)], [name.toUpperCase()], { lists: [], sizeBytes: 1 }, '../../keys'].map(
    (value) => () => value,
  ),
  ...[{ '../bursar.db': file }, { form: 'kms' }, { form: 'kms', file: 'x' }].map(
    (value) => () => value,
  ),
  () => 'x'.repeat(100_000),
  () => JSON.parse('{"__proto__":{"form":"kms"}}'),
  deep,
];

type Bag = Record<string, unknown>;

function mutate(random: () => number): unknown {
  const mutated = { version: 1, ...structuredClone(whole) } as Bag;
  for (let i = 1 + randomBelow(random, 3); i > 0; i--) {
    const inner = Object.values(mutated).filter((one) => typeof one === 'object' && one !== null);
    const target = (random() < 0.4 && inner.length > 0 ? randomOf(random, inner) : mutated) as Bag;
    const keys = Object.keys(target);
    if (keys.length === 0) continue;
    const key = randomOf(random, keys);
    if (random() < 0.15) delete target[key];
    else target[key] = randomOf(random, junk)();
  }
  return mutated;
}

/** What a reader made of it; null: it said that it is damaged. */
function attempt<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    expect(error).toBeInstanceOf(IntegrityError);
    // It is shown to people.
    expect((error as Error).message.length).toBeLessThan(500);
    expect((error as Error).message).not.toMatch(/\p{Cc}/u);
    return null;
  }
}

/** As `JSON.stringify`, which itself goes down. */
function textOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    const text = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    return `{"version":${text},"id":"${id}"}`;
  }
}

describe('a manifest', () => {
  const sealed = sealManifest(sealer, whole);

  it('of any shape is damaged, or has members of their types', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    let read = 0;
    let opened = 0;
    await fuzz(base, 1500, (random) => {
      const text = textOf(mutate(random));
      const bytes = Buffer.from(`${text}\n${sealer.macOf(text, whole.epoch)}\n`);
      const manifest = attempt(() => parseManifest(id, bytes));
      attempt(() => openManifest(sealer, id, bytes));
      if (!manifest) return;
      read++;
      expect(new Date(manifest.timeMs).toISOString()).toMatch(/Z$/);
      for (const list of [manifest.database, ...Object.values(manifest.files)]) {
        expect(list.lists.every((one) => /^[0-9a-f]{64}$/.test(one))).toBe(true);
      }
      expect(Object.keys(manifest.files).every((one) => !one.includes('/'))).toBe(true);
      const { keys } = manifest;
      if (keys?.form !== 'scrypt' || keys.cost > 2 ** 14) return;
      // Each takes as long as a guess does.
      if (!isDeepStrictEqual(keys, whole.keys) && opened++ < 20) {
        attempt(() => openKeys(keys, 'guess', id));
      }
    });
    expect(read).toBeGreaterThan(20);
  });

  it('in which bytes are others is never taken for what was written', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    await fuzz(base, 2000, (random) => {
      const bytes = Buffer.from(sealed);
      const what = random();
      const at = randomBelow(random, bytes.length);
      let altered: Buffer;
      if (what < 0.5) {
        bytes[at] = (bytes[at] as number) ^ (1 << randomBelow(random, 8));
        altered = bytes;
      } else if (what < 0.7) altered = bytes.subarray(0, at);
      else if (what < 0.9) {
        const more = randomBytesOf(random, 1 + randomBelow(random, 9));
        altered = Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)]);
      } else altered = randomBytesOf(random, randomBelow(random, 300));
      expect(attempt(() => openManifest(sealer, id, altered))).toBeNull();
    });
    expect(openManifest(sealer, id, sealed)).toEqual(whole);
    expect(attempt(() => openManifest(sealer, `${id.slice(0, -1)}e`, sealed))).toBeNull();
  });

  it('has keys that open only with their passphrase, for their backup, as sealed', () => {
    const keys = sealKeys('{"keys":[]}', 'correct horse battery', id);
    if (keys.form !== 'scrypt') throw new Error('they are sealed otherwise');
    expect(openKeys(keys, 'correct horse battery', id)).toBe('{"keys":[]}');
    const cut = { ...keys, sealed: keys.sealed.slice(0, 20) };
    expect(attempt(() => openKeys(cut, 'correct horse battery', id))).toBeNull();
    expect(attempt(() => openKeys(keys, 'correct horse battery', `${id}x`))).toBeNull();
    for (const cost of [2, 2 ** 30]) {
      expect(attempt(() => openKeys({ ...keys, cost }, 'correct horse battery', id))).toBeNull();
    }
  });

  it.each([
    ...[2, 2 ** 13, 2 ** 14 + 1, 2 ** 19, 2 ** 20, 2 ** 31, 2 ** 64].map((cost) => [cost, false]),
    ...[2 ** 14, 2 ** 18].map((cost) => [cost, true]),
  ] as const)('whose keys are of cost %d costs no memory that is not there', (cost, isTaken) => {
    const keys = { ...whole.keys, cost } as SealedKeys;
    const given = sealManifest(sealer, { ...whole, keys });
    expect(attempt(() => parseManifest(id, given)) !== null).toBe(isTaken);
  });
});

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe('a list', () => {
  it('of any bytes is damaged, or has entries of their sizes', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const place = openFolderPlace(join(folder, 'place'), { mayMake: true });
    await place.lock();
    const failing = async <T>(read: () => Promise<T>): Promise<T | null> => {
      try {
        return await read();
      } catch (error) {
        expect(error).toBeInstanceOf(IntegrityError);
        return null;
      }
    };
    await fuzz(base, 60, async (random) => {
      // It knows what it has written: another one writes it again.
      const pieces = PieceStore.open(place, sealer);
      const entries = randomBelow(random, 5);
      const odd = random() < 0.5 ? 0 : randomBelow(random, 60);
      const plain = randomBytesOf(random, entries * (random() < 0.5 ? 52 : 32) + odd);
      const list = await pieces.put(plain);
      const extents = await failing(() => listed(readExtentLists(pieces, [list])));
      expect(extents?.length ?? null).toBe(plain.length % 52 === 0 ? plain.length / 52 : null);
      for (const { id: extent, digest } of extents ?? []) {
        expect([extent.length, digest.length]).toEqual([16, 32]);
      }
      const names = await failing(() => pieces.getNames(list));
      expect(names?.length ?? null).toBe(plain.length % 32 === 0 ? plain.length / 32 : null);
      // Another piece under its name, or a part of it.
      const other = await pieces.put(randomBytesOf(random, 64));
      const at = (one: string) => `pieces/${one.slice(0, 2)}/${one}`;
      const sealedOther = (await place.read(at(other))) as Buffer;
      const cut = sealedOther.subarray(0, randomBelow(random, sealedOther.length));
      await place.write(at(list), random() < 0.5 ? sealedOther : cut);
      if (other !== list) expect(await failing(() => pieces.get(list))).toBeNull();
    });
    await place.close();
  });
});
