// What journals tell of identities: entries of any shape that were sealed with the keys, which at
// worst are passed over; and histories that several stores tell from several moments, of which the
// newest word on each thing holds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { Sealer } from '#bursar/core/sealing.js';
import { openObject, sealObject, segmentName } from '#bursar/ledger/journal/format.js';
import type { IdentityEntry, StrangeEntry } from '#bursar/ledger/journal/identity-format.js';
import { tryCommitter } from '#bursar/ledger/rebuild/committer.js';
import { newReport } from '#bursar/ledger/rebuild/report.js';
import { restorePeople, restoreRights } from '#bursar/ledger/rebuild/restore-identities.js';
import { Staging } from '#bursar/ledger/rebuild/staging.js';
import type { Work } from '#bursar/ledger/rebuild/work.js';
import { keyring, type LedgerFixture, openLedger } from '../ledger/fixture.ts';
import { fuzz, fuzzMs, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

const base = fuzzMs > 0 ? Date.now() % 1e9 : 66;
const place = { generation: '000001763678000-0123abcd', name: segmentName(4, 9) };
const at = { toldSeq: 7, tenant: 'cms' };
const rule = { name: 'g', effect: 'allow', subjects: ['anyone'], actions: ['s3:*'] };
const key = { createdMs: 1, active: false };

/** One of each kind, all of one tenant. */
const whole: Record<string, unknown>[] = [
  {
    ...{ ...at, kind: 'tenant', name: '', createdMs: 1, membersCreateBuckets: true },
    ...{ defaultStore: null, recordReads: 'strict', membersMountBuckets: false },
  },
  { ...at, kind: 'group', name: 'shifters', createdMs: 1 },
  {
    ...{ ...at, kind: 'principal', name: 'alice', is: 'person', role: 'member', createdMs: 1 },
    ...{ active: true, groups: ['shifters', 'gone'] },
    accessKeys: [{ ...key, id: 'BURSARKEY', thumbprint: null, sealedSecret: '00' }],
    publicKeys: [{ ...key, thumbprint: 't', jwk: '{"kty":"OKP"}', purpose: 'token', proof: 'p' }],
    mounts: [{ name: 'own', bucketTenant: 'atlas', bucket: 'b', createdMs: 1 }],
  },
  { ...at, kind: 'grant', name: 'g', rule: JSON.stringify(rule), createdMs: 1 },
  { ...at, kind: 'mount', name: 'm', bucketTenant: 'atlas', bucket: 'b', createdMs: 1 },
  {
    ...{ ...at, kind: 'issuer', name: 'i', url: 'https://i', audience: 'a', createdMs: 1 },
    mapping: '{"pathPrefix":"/","principals":{},"groups":{},"defaultPrincipal":null}',
  },
  {
    ...{ ...at, kind: 'class', name: 'derived', createdMs: 1 },
    definition: JSON.stringify({
      aliases: ['ONEZONE_IA'],
      durability: { legs: [{ store: 'disk1' }], ack: 1, repairHours: 24 },
      availability: { answer: 'first', maxOfflineHoursPerMonth: 0 },
      access: 'online',
      restoreWithinHours: null,
      loss: 'report',
      minimum: { days: 0, bytes: 0 },
    }),
  },
  { ...at, kind: 'limits', tenant: '', name: 'tenant:cms', limits: '{"requests":{"day":5}}' },
  { ...at, kind: 'webhook', name: '', url: 'https://h', createdMs: 1, sealedSecret: null },
  {
    ...{ ...at, kind: 'token', name: 'share', is: 'share', principal: 'alice', accessKey: 'k' },
    ...{ details: '{"bucketTenant":"cms","bucket":"b","bucketId":1,"key":"k"}', createdMs: 1 },
    ...{ expiresMs: 9e12, usesMax: 3, secretHash: '00ff' },
  },
  { ...at, kind: 'revocation', name: 'r', principal: 'alice', revokedMs: 1, expiresMs: null },
  { ...at, kind: 'absent', of: 'mount', name: 'gone' },
  { ...at, kind: 'retired', of: 'principal', name: 'left' },
];

const junk: unknown[] = [
  ...[null, '', 'x', '{}', '[]', '{"a":1}', 'null', 0, -1, 1.5, 9e15, true, false, undefined],
  ...[[], ['x'], [null], [[]], {}, { id: 'x' }, '\ud800', 'a/b', '__proto__', 'constructor'],
  ...['token:x', 'tenant:cms', 'principal:cms/alice', 'x'.repeat(5000), 'ff', 'https://h', 'cms'],
];

function mutate(random: () => number, entry: Record<string, unknown>): Record<string, unknown> {
  const mutated = structuredClone(entry);
  for (let i = randomBelow(random, 4); i > 0; i--) {
    const lists = Object.values(mutated).filter((one) => Array.isArray(one) && one.length > 0);
    const inner = lists.length > 0 ? (randomOf(random, lists) as unknown[])[0] : null;
    const isInner = typeof inner === 'object' && inner !== null && random() < 0.5;
    const target = (isInner ? inner : mutated) as Record<string, unknown>;
    target[randomOf(random, Object.keys(target))] = randomOf(random, junk);
  }
  return mutated;
}

async function withStaging<T>(work: (staging: Staging) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-fuzz-'));
  const staging = Staging.open(join(folder, 'staging.db'));
  try {
    return await work(staging);
  } finally {
    staging.close();
    rmSync(folder, { recursive: true });
  }
}

describe('sealed entries of any shape', () => {
  let fixture: LedgerFixture;
  beforeAll(async () => {
    fixture = await openLedger();
  });
  afterAll(() => fixture.close());

  it('are restored, left out or not taken at all, and break nothing', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    let opened = 0;
    await fuzz(base, 150, async (random, seed) => {
      const tenant = `t${seed}`;
      const entries = whole.map((entry) => {
        const own = entry.tenant === 'cms' ? { ...entry, tenant } : entry;
        return random() < 0.3 ? mutate(random, own) : own;
      });
      if (random() < 0.2) entries.push({ kind: randomOf(random, ['future', 'constructor']) });
      const head = { kind: 'segment', previous: null, lastSeq: 9, timeMs: 1, identities: entries };
      const sealed = sealObject(keyring, place, [JSON.stringify(head)]);
      let told: (IdentityEntry | StrangeEntry)[];
      try {
        const { head: found } = openObject(keyring, place, sealed);
        told = (found.kind === 'segment' && found.identities) || [];
      } catch (error) {
        expect(error).toBeInstanceOf(IntegrityError);
        return;
      }
      opened++;
      await withStaging(async (staging) => {
        await staging.identities.take(told, { revocationsAlone: false });
        await staging.identities.settle(0);
        const work = {
          ...{ staging, keyring, sealer: new Sealer(keyring), report: newReport() },
          ...{ withKeys: true, onProgress: () => {} },
        } as unknown as Work;
        const commit = tryCommitter({ ledger: fixture.ledger, read: fixture.read }, work.prices);
        const restoring = { work, commit, isDoubtful: random() < 0.3 };
        await restorePeople(restoring);
        await restoreRights(restoring);
      });
      expect([...fixture.failures, ...fixture.fatal]).toEqual([]);
    });
    expect(opened).toBeGreaterThan(10);
  });
});

/** Of one grant: what it was from each change on; null: it was not there. */
type History = { seq: number; rule: string | null }[];

describe('histories that several stores tell', () => {
  const namesMax = 6;
  const stateAt = (history: History, seq: number): string | null =>
    history.filter((one) => one.seq <= seq).at(-1)?.rule ?? null;

  it('come to the newest word on each thing', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(base, 60, async (random) => {
      const histories = Array.from({ length: namesMax }, (): History => []);
      const endSeq = 20 + randomBelow(random, 60);
      const changed: number[] = [];
      for (let seq = 1; seq <= endSeq; seq++) {
        const which = randomBelow(random, namesMax);
        changed[seq] = which;
        const rule = random() < 0.4 ? null : JSON.stringify({ seq });
        histories[which]?.push({ seq, rule });
      }
      const tellOf = (which: number, toldSeq: number): IdentityEntry => {
        const rule = stateAt(histories[which] as History, toldSeq);
        const thing = { toldSeq, tenant: 'cms', name: `g${which}` };
        return rule === null
          ? { kind: 'absent', of: 'grant', ...thing }
          : { kind: 'grant', rule, createdMs: 1, ...thing };
      };
      const told: { entry: IdentityEntry; store: number }[] = [];
      let newest = 0;
      let floorSeq = 0;
      for (const store of [2, 3]) {
        // A snapshot somewhere, and segments behind it up to where the store was told last.
        const lastSeq = 1 + randomBelow(random, endSeq);
        const beginSeq = 1 + randomBelow(random, lastSeq);
        newest = Math.max(newest, lastSeq);
        floorSeq = Math.max(floorSeq, beginSeq);
        for (let which = 0; which < namesMax; which++) {
          // Later changes may have been told by the time that a page is read.
          const entry = tellOf(which, beginSeq - 1 + randomBelow(random, lastSeq - beginSeq + 2));
          if (entry.kind === 'grant') told.push({ entry, store });
        }
        for (let seq = beginSeq; seq <= lastSeq; seq++) {
          const seen = seq + randomBelow(random, lastSeq - seq + 1);
          told.push({ entry: tellOf(changed[seq] as number, seen), store });
        }
      }
      told.sort(() => random() - 0.5);
      await withStaging(async (staging) => {
        const tenant = { ...whole[0], toldSeq: newest } as unknown as IdentityEntry;
        const entries = [tenant, ...told.map(({ entry }) => entry)];
        await staging.identities.take(entries, { revocationsAlone: false });
        await staging.identities.settle(floorSeq);
        const found: Record<string, string> = {};
        for await (const { name, rule } of staging.identities.list('grant')) found[name] = rule;
        const expected: Record<string, string> = {};
        for (const [which, history] of histories.entries()) {
          const rule = stateAt(history, newest);
          if (rule !== null) expected[`g${which}`] = rule;
        }
        expect(found).toEqual(expected);
      });
    });
  });
});
