// A bundle is believed only if it has every record of its tenant in its range, and each is what was
// logged. Lines are left out, altered, repeated and exchanged: each is found.
import { generateKeyPairSync, hash, randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type BundleHead,
  renderBundleHead,
  renderBundleLeaves,
  renderBundleRecord,
  verifyBundle,
} from '#bursar/audit/bundle.js';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { hashLeaf, hashRow, rootOf, tileWidth } from '#bursar/audit/log/merkle.js';
import { ed25519, noteKey, rawPublicKey, signNote } from '#bursar/audit/log/note.js';
import { proveRange } from '#bursar/audit/log/range-proof.js';
import { leafOf, type Opening } from '#bursar/audit/receipt.js';

const origin = 'log.example/bundle';
const { privateKey } = generateKeyPairSync('ed25519');
const key = noteKey(origin, rawPublicKey(privateKey), ed25519);
const trust = { keys: [key] };

const pseudonyms = new Map(
  ['cms', 'atlas', 'lhcb'].map((name) => {
    return [name, hash('sha256', name, 'buffer').toString('base64url', 0, 16)] as const;
  }),
);
const nameOf = (tenant: string): string => pseudonyms.get(tenant) as string;

/** By which record each was erased; record 350 is the other tenant's own, and 351 of this one. */
const erased = new Map([
  [321, 350],
  [330, 351],
]);

function openingOf(index: number): Opening {
  const tenant = index % 3 === 0 ? 'cms' : 'atlas';
  const bucketTenant = index % 5 === 1 && tenant === 'atlas' ? 'cms' : undefined;
  const named = [...erased].filter(([, by]) => by === index).map(([one]) => one);
  const action = named.length > 0 ? 'bursar:EraseRecords' : 's3:GetObject';
  const change = named.length > 0 ? { erased: named } : undefined;
  const known = { action, bucketTenant, change, evidence: 'none', index, principal: 'alice' };
  const record = { ...known, status: 200, tenant, time: '2026-01-01T00:00:00.000Z' };
  return {
    tenant: nameOf(tenant),
    bucketTenant: bucketTenant === undefined ? null : nameOf(bucketTenant),
    salt: hash('sha256', `salt ${index}`, 'buffer').subarray(0, 16),
    record: JSON.stringify(record),
    evidence: null,
  };
}

const size = 700;
const openings = Array.from({ length: size }, (_, i) => openingOf(i));
const entries = openings.map(leafOf);
const leaves = entries.map(hashLeaf);
const roots = [0, 1].map((i) => hashRow(Buffer.concat(leaves.slice(i * 256, (i + 1) * 256))));
const tiles = {
  readTile: async (level: number, index: number, width: number) =>
    Buffer.concat((level === 0 ? leaves : roots).slice(index * 256, index * 256 + width)),
};
let checkpoint: string;

function isOf({ tenant, bucketTenant }: Opening, name: string): boolean {
  return tenant === nameOf(name) || bucketTenant === nameOf(name);
}

/** The lines of the bundle, the first one its head. */
async function bundle(from = 0, to = size, more: Partial<BundleHead> = {}): Promise<string[]> {
  const proof = await proveRange(tiles, { from, to, size });
  const head = {
    ...{ tenant: 'cms', pseudonym: nameOf('cms'), from, to, fromTime: null, toTime: null },
    ...{ checkpoint, keys: [], proof, ...more },
  };
  const lines = [renderBundleHead(head)];
  for (let at = from; at < to; at += tileWidth) {
    const end = Math.min(at + tileWidth, to);
    lines.push(renderBundleLeaves(entries.slice(at, end)));
    for (let index = at; index < end; index++) {
      const opening = openings[index] as Opening;
      if (!isOf(opening, head.tenant)) continue;
      const by = erased.get(index);
      const left = by === undefined ? { opening, erasedBy: null } : { opening: null, erasedBy: by };
      lines.push(renderBundleRecord({ index, ...left }));
    }
  }
  return lines;
}

beforeAll(async () => {
  const text = renderCheckpoint({ origin, size, root: await rootOf(tiles, size) });
  checkpoint = signNote(text, [{ key, privateKey }]);
});

async function whyNot(lines: readonly string[]): Promise<string> {
  const outcome = await verifyBundle(lines, { trust });
  if (outcome.ok) throw new Error('it was believed');
  return outcome.why;
}

const recordOf = (index: number) => (line: string) => line.startsWith(`{"index":${index},`);

describe('a bundle', () => {
  it.each([
    [0, size],
    [0, 0],
    [100, 500],
    [256, 512],
    [699, 700],
  ])('from %i to %i is believed, and each record of it is given', async (from, to) => {
    const given: number[] = [];
    const lines = await bundle(from, to);
    const outcome = await verifyBundle(lines, {
      trust,
      onRecord: ({ index }) => given.push(index),
    });
    const within = openings.flatMap((opening, index) => {
      return index >= from && index < to && isOf(opening, 'cms') ? index : [];
    });
    const expected = within.filter((index) => !erased.has(index));
    expect(given).toEqual(expected);
    expect(outcome).toMatchObject({ ok: true, tenant: 'cms', from, to, records: expected.length });
    expect(outcome).toMatchObject({ erased: within.length - expected.length });
  });

  it('says which records the gateway has no more as they were', async () => {
    const lines = (await bundle(0, 100)).map((line) =>
      recordOf(9)(line) ? '{"index":9,"altered":true}' : line,
    );
    const whole = await verifyBundle(await bundle(0, 100), { trust });
    expect(whole).toMatchObject({ ok: true, altered: [] });
    const records = whole.ok ? whole.records - 1 : 0;
    expect(await verifyBundle(lines, { trust })).toMatchObject({ altered: [9], records });
  });

  it('says which erasures no act in it explains', async () => {
    const lines = (await bundle(300, 400)).map((line) =>
      line.replace('"erasedBy":351', '"erasedBy":null'),
    );
    expect(await verifyBundle(lines, { trust })).toMatchObject({ unexplained: [321, 330] });
    const all = await verifyBundle(await bundle(300, 400), { trust });
    expect(all).toMatchObject({ erased: 2, unexplained: [321] });
    const before = await verifyBundle(await bundle(300, 351), { trust });
    expect(before).toMatchObject({ erased: 2, unexplained: [321, 330] });
  });

  it.each<[string, (lines: string[]) => string[], RegExp]>([
    ['lacks a record', (lines) => lines.filter((l) => !recordOf(9)(l)), /record 9 is missing/],
    ['lacks its last record', (lines) => lines.slice(0, -1), /is missing/],
    ['lacks leaves', (lines) => [lines[0] ?? '', ...lines.slice(-90)], /./],
    ['ends early', (lines) => lines.slice(0, lines.findIndex(recordOf(255)) + 1), /ends|missing/],
    ['has a record twice', (lines) => insert(lines, recordOf(9), (l) => [l, l]), /missing/],
    [
      'calls a record erased that comes later',
      (lines) => insert(lines, recordOf(9), (l) => ['{"index":9,"erasedBy":350}', l]),
      /missing|twice/,
    ],
    [
      'calls a record altered in another way',
      (lines) => insert(lines, recordOf(9), () => ['{"index":9,"altered":false}']),
      /nothing that a bundle has/,
    ],
    [
      'calls a record altered that comes later',
      (lines) => insert(lines, recordOf(9), (l) => ['{"index":9,"altered":true}', l]),
      /missing|twice/,
    ],
    [
      'has another record',
      (lines) => insert(lines, recordOf(9), (l) => [l.replace('"status":200', '"status":403')]),
      /record 9 is not what was logged/,
    ],
    [
      'has another salt',
      (lines) => insert(lines, recordOf(9), (l) => [l.replace(/"salt":"../, '"salt":"AA')]),
      /record 9 is not what was logged/,
    ],
    [
      'writes an index in another way',
      (lines) => insert(lines, recordOf(9), (l) => [l.replace('"index":9', '"index":09')]),
      /nothing that a bundle has/,
    ],
    [
      'writes leaves in another way',
      (lines) => lines.with(-1, `${lines.at(-1)?.slice(0, -2)} "}`),
      /nothing that a bundle has/,
    ],
    [
      'writes its first line in another way',
      (lines) => lines.with(0, (lines[0] ?? '').replace('"from":0', '"from":7,"from":0')),
      /does not begin/,
    ],
    ['has a line of something else', (lines) => [...lines, '{}'], /nothing that a bundle has/],
    ['has more leaves', (lines) => [...lines, lines[1] ?? ''], /more leaves/],
    ['is empty', () => [], /empty/],
    ['begins otherwise', (lines) => lines.slice(1), /does not begin/],
  ])('that %s is refused', async (_what, damage, why) => {
    expect(await whyNot(damage(await bundle()))).toMatch(why);
  });

  it.each<[string, (leaf: string) => string]>([
    [
      'whose b has spare bits',
      (leaf) => leaf.replace(',"c"', `,"b":"${spare(nameOf('cms'))}","c"`),
    ],
    ['whose t has spare bits', (leaf) => leaf.replace(nameOf('atlas'), spare(nameOf('atlas')))],
    ['of another version', (leaf) => leaf.replace('"v":1', '"v":2')],
  ])('with a leaf %s is refused, though it was logged', async (_what, change) => {
    const leaf = Buffer.from(change(entries[4]?.toString() ?? ''));
    expect(leaf.equals(entries[4] as Buffer)).toBe(false);
    const lines = await bundle();
    lines[1] = renderBundleLeaves(entries.with(4, leaf).slice(0, tileWidth));
    expect(await whyNot(lines)).toBe('line 2: entry 4 is not of a record');
  });

  it('with a record that no receipt could have is refused', async () => {
    const lying = {
      ...openingOf(9),
      record: openingOf(9).record.replace('"index":9', '"index":8'),
    };
    const lines = await bundle();
    lines[1] = renderBundleLeaves(entries.with(9, leafOf(lying)).slice(0, tileWidth));
    const forged = renderBundleRecord({ index: 9, opening: lying, erasedBy: null });
    const given = insert(lines, recordOf(9), () => [forged]);
    expect(await whyNot(given)).toMatch(/record 9: its record says that its index is 8/);
  });

  it('with a leaf that is not the log’s is refused at its end', async () => {
    const foreign = entries.with(4, leafOf({ ...openingOf(4), salt: randomBytes(16) }));
    const lines = await bundle();
    lines[1] = renderBundleLeaves(foreign.slice(0, tileWidth));
    expect(await whyNot(lines)).toMatch('not those of the log');
  });

  it('under another tenant’s pseudonym is refused: its records say whose they are', async () => {
    const lines = await bundle(0, size, { tenant: 'atlas', pseudonym: nameOf('atlas') });
    expect((await verifyBundle(lines, { trust })).ok).toBe(true);
    const head = JSON.parse(lines[0] ?? '');
    lines[0] = JSON.stringify({ ...head, tenant: 'lhcb' });
    expect(await whyNot(lines)).toMatch('is of another tenant, atlas');
  });

  it('of a range that is not the proof’s is refused', async () => {
    const [head = '', ...rest] = await bundle(100, 500);
    const shorter = JSON.stringify({ ...JSON.parse(head), to: 499 });
    expect(await whyNot([shorter, ...rest])).not.toBe('');
    const longer = JSON.stringify({ ...JSON.parse(head), to: 501 });
    expect(await whyNot([longer, ...rest])).not.toBe('');
  });

  it('that only another key signed is refused', async () => {
    const other = generateKeyPairSync('ed25519').publicKey;
    const keys = [noteKey(origin, rawPublicKey(other), ed25519)];
    expect(await verifyBundle(await bundle(), { trust: { keys } })).toMatchObject({ ok: false });
  });

  it('never makes its reader throw, whatever is in a line', async () => {
    const lines = await bundle(0, 10);
    for (const [i, line] of lines.entries()) {
      for (let at = 0; at < line.length; at += 7) {
        const altered = `${line.slice(0, at)}\u00ff${line.slice(at + 1)}`;
        const outcome = await verifyBundle(lines.with(i, altered), { trust });
        if (outcome.ok) expect(altered).toMatch(/"(format|fromTime|toTime|keys|\u00ff)/);
      }
    }
  });
});

/** The same bytes to who ignores the bits that base64url leaves over. */
function spare(name: string): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return `${name.slice(0, -1)}${letters[letters.indexOf(name.at(-1) as string) + 1]}`;
}

function insert(
  lines: readonly string[],
  where: (line: string) => boolean,
  by: (line: string) => string[],
): string[] {
  const at = lines.findIndex(where);
  return [...lines.slice(0, at), ...by(lines[at] ?? ''), ...lines.slice(at + 1)];
}
