// How grants are kept: bytes that read as they were written, in tables that lose and mix nothing,
// and shared parts that go when nobody needs them.
import { describe, expect, it } from 'vitest';
import { compileGrant, type Grant } from '#bursar/authz/grants/grant.js';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import {
  RecordTable,
  SharedParts,
  StoredGrant,
  writeGrant,
} from '#bursar/authz/grants/stored-grant.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf } from '../../fuzz/seeded-random.ts';
import { grant } from './fixture.ts';

describe('a stored grant', () => {
  it.each<Partial<Grant>>([
    {},
    { bucket: undefined },
    { prefix: 'a/b/' },
    { key: 'caf\u00e9/\u{1f600}' },
    { prefix: '\u00e9'.repeat(512), name: 'a'.repeat(63) },
    { effect: 'deny', subjects: ['anyone', 'group:atlas/x'], actions: ['s3:*', 'bursar:*'] },
    { conditions: { Bool: { 'aws:SecureTransport': true } } },
  ])('reads as the rule that it was: %o', (given) => {
    const one = grant(given);
    const parts = new SharedParts();
    const stored = new StoredGrant(writeGrant('cms', one, parts), 0, parts);
    const { conditions, ...rule } = compileGrant('cms', one);
    const { source, name, effect, subjects, actions, resource } = stored;
    expect({ source, name, effect, subjects, actions, resource }).toEqual(rule);
    expect(stored.conditions.map((condition) => condition.name)).toEqual(
      conditions.map((condition) => condition.name),
    );
  });
});

describe('shared parts', () => {
  it('are made once, and kept as long as they are held', () => {
    const parts = new SharedParts();
    let made = 0;
    const part = { name: 'a', make: () => ++made };
    const id = parts.hold(part);
    expect(parts.hold(part)).toBe(id);
    parts.holdAgain(id);
    parts.release(id);
    parts.release(id);
    expect(parts.get(id)).toBe(1);
    parts.release(id);
    expect(() => parts.get(id)).toThrow('nobody holds');
    const other = parts.hold({ name: 'b', make: () => 'b' });
    expect(parts.get(other)).toBe('b');
    expect(parts.get(parts.hold(part))).toBe(2);
  });

  it('of grants are gone with the last grant', () => {
    const parts = new SharedParts();
    const index = new GrantIndex(parts);
    const made = Array.from({ length: 40 }, (_, i) =>
      grant({ subjects: [`principal:cms/u${i}`, 'anyone'], prefix: i % 2 ? 'a/' : `b/${i}` }),
    );
    for (const one of made) index.add('cms', one);
    expect(parts.count).toBeGreaterThan(40);
    for (const one of made) index.remove('cms', one);
    expect(parts.count).toBe(0);
  });
});

describe('the table of records', () => {
  it('does not grow by records that come and go', () => {
    const table = new RecordTable();
    const record = Buffer.alloc(100);
    for (let i = 0; i < 1000; i++) table.add(i << 8, record);
    const before = table.allocatedBytes;
    for (let i = 0; i < 20_000; i++) {
      table.remove((i % 1000) << 8, () => true);
      table.add((i % 1000) << 8, record);
    }
    expect(table.allocatedBytes).toBeLessThan(2 * before);
  });

  it('holds what was added and not removed, and nothing else', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    await fuzz(270_000, 20, (random) => {
      const table = new RecordTable();
      const kept = new Map<number, string[]>();
      // Few shards and slots, so that hashes meet in them; equal ones are frequent.
      const hashOf = () => (randomBelow(random, 40) << 8) - (random() < 0.5 ? 5 : 2 ** 31);
      const found = (hash: number) => {
        const texts: string[] = [];
        table.forEach(hash, (bytes, at) => {
          texts.push(bytes.toString('hex', at, at + bytes.readUInt16LE(at - 2)));
        });
        return texts.sort();
      };
      for (let i = 0; i < 1500; i++) {
        const hash = hashOf();
        const texts = kept.get(hash) ?? [];
        if (random() < 0.6) {
          const record = randomBytesOf(random, randomBelow(random, 60));
          table.add(hash, record);
          kept.set(hash, [...texts, record.toString('hex')].sort());
        } else if (random() < 0.1) {
          const taken = table.takeAll(hash).map((record) => record.toString('hex'));
          expect(taken.sort()).toEqual(texts);
          kept.delete(hash);
        } else {
          const isMeant = (bytes: Buffer, at: number) => {
            const end = at + bytes.readUInt16LE(at - 2);
            return bytes.toString('hex', at, end) === texts[0];
          };
          expect(table.remove(hash, isMeant)).toBe(texts.length > 0);
          kept.set(hash, texts.slice(1));
        }
        expect(found(hash)).toEqual(kept.get(hash) ?? []);
        expect(table.count(hash)).toBe(kept.get(hash)?.length ?? 0);
      }
      for (const [hash, texts] of kept) expect(found(hash)).toEqual(texts);
    });
  });
});
