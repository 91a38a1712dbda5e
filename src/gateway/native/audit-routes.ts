// Native API: what auditors take away, and what is erased. Invariants: a bundle is of one tenant,
// and says of each leaf of the tenant in its range what it opens to, or that it was erased; a part
// of it is bounded, in records and in bytes; nothing of data is in it, and no evidence with which
// another could still act. An erasure names what and why, never what it was.
import {
  type BundleRecord,
  renderBundleHead,
  renderBundleLeaves,
  renderBundleRecord,
} from '../../audit/bundle.ts';
import { readErasure } from '../../audit/erasure.ts';
import { withheldUntilMs } from '../../audit/evidence.ts';
import { renderLeaf } from '../../audit/leaf.ts';
import { tileWidth } from '../../audit/log/merkle.ts';
import { proveRange } from '../../audit/log/range-proof.ts';
import { readLogSize, storedTiles } from '../../audit/log/stored-tiles.ts';
import { readPseudonym } from '../../audit/record-log.ts';
import type { IsWanted, KeptRecord } from '../../audit/record-store.ts';
import { firstSince } from '../../audit/record-times.ts';
import type { ShownRecord } from '../../audit/shown-records.ts';
import { nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { showLogKeys } from './log-routes.ts';
import { chooseNote } from './record-routes.ts';
import { type Call, param, refuseDelegated, routeTable } from './route.ts';
import { answerObject, closedObject, reason, text } from './schemas.ts';

/** Leaves in one part, at most. */
const partLeavesMax = 4 * tileWidth;
/** A part that has so many characters ends with the leaves that it is at. */
const partCharactersMax = 8 * 1024 * 1024;
/** The record of the act names all of them. */
const erasedMax = 100;

const indexPattern = '^(0|[1-9][0-9]{0,14})$';
const placePattern =
  '^([0-9]{1,15}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,12}(Z|[+-][0-9]{2}:[0-9]{2}))$';
const lines = { type: 'array', items: { type: 'object', additionalProperties: true } } as const;

export const auditRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/bundle',
    action: 'bursar:ExportRecords',
    operation: 'BeginBundle',
    summary:
      "The first line of a bundle of a tenant's records: its range, the signed checkpoint, and " +
      'the hashes that prove the range. The parts from `from` on are what follows.',
    query: {
      from: text('A time, or a log index.', { pattern: placePattern }),
      to: text('The same; not in the range.', { pattern: placePattern }),
    },
    answer: { type: 'object', additionalProperties: true },
    run: async (call) => ({ answer: await beginBundle(call) }),
  },
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/bundle/:index',
    action: 'bursar:ExportRecords',
    operation: 'ReadBundle',
    summary: 'The lines of a bundle for the leaves from this index on; `next` is where to go on.',
    query: { to: text('As the first line has.', { pattern: indexPattern }) },
    answer: answerObject({ next: { type: 'integer' }, lines }),
    run: async (call) => ({ answer: await readBundle(call) }),
  },
  {
    method: 'POST',
    url: '/_/v1/tenants/:t/erasures',
    action: 'bursar:EraseRecords',
    summary:
      "Erase records of the tenant's principals: all of them, or none. Their leaves stay in the " +
      'log, which verifies as before; nobody can open them any more.',
    body: closedObject(
      {
        indexes: {
          type: 'array',
          items: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
          uniqueItems: true,
          minItems: 1,
          maxItems: erasedMax,
        },
        reason,
      },
      ['indexes', 'reason'],
    ),
    answer: answerObject({ erased: { type: 'array', items: { type: 'integer' } } }),
    run: async (call) => {
      refuseDelegated(call);
      const { indexes, reason } = call.body as { indexes: number[]; reason: string };
      // What they charged must be in the sums by day, which are made of the records.
      await call.deps.usageRollUp.catchUp();
      return {
        change: { kind: 'eraseRecords', tenant: param(call, 't'), indexes, reason },
        answer: async () => ({ erased: indexes }),
      };
    },
  },
]);

async function beginBundle(call: Call): Promise<string> {
  const { deps, query } = call;
  const tenant = param(call, 't');
  // What was answered before is in it, though its checkpoint may be signed a moment later.
  if (deps.log.note !== null) await deps.log.waitFor(await readLogSize(deps.read));
  const { note, checkpoint } = await chooseNote(deps, Math.max(deps.log.size - 1, 0));
  const to = Math.min(await placeOf(call, query.to, checkpoint.size), checkpoint.size);
  const from = Math.min(await placeOf(call, query.from, 0), to);
  const pseudonym = await readPseudonym(deps.read, tenant);
  // A tenant gets its pseudonym with its first record.
  if (pseudonym === undefined) throw new Refusal('NoSuchRecord');
  const range = { from, to, size: checkpoint.size };
  return renderBundleHead({
    ...{ tenant, pseudonym, from, to, checkpoint: note },
    fromTime: isTime(query.from) ? query.from : null,
    toTime: isTime(query.to) ? query.to : null,
    keys: await showLogKeys(deps),
    proof: await proveRange(storedTiles(deps.read), range),
  });
}

function isTime(place: string | undefined): place is string {
  return place?.includes('T') === true;
}

/** The log index that is asked for, by itself or by a time. Throws `InvalidInput`. */
async function placeOf({ deps }: Call, place: string | undefined, absent: number) {
  if (place === undefined) return absent;
  if (!isTime(place)) return Number(place);
  const timeMs = Date.parse(place);
  if (Number.isNaN(timeMs)) throw new Refusal('InvalidInput', { fields: { field: 'from, to' } });
  return firstSince(deps.read, deps.records, timeMs);
}

async function readBundle(call: Call): Promise<string> {
  const { deps, query } = call;
  const tenant = param(call, 't');
  const from = Number(param(call, 'index'));
  const end = Math.min(Number(query.to ?? deps.log.size), deps.log.size);
  if (!Number.isSafeInteger(from) || from < 0 || from >= end) throw new Refusal('NoSuchRecord');
  const isOurs: IsWanted = (whose) => whose.tenant === tenant || whose.bucketTenant === tenant;
  const written: string[] = [];
  let characters = 0;
  let next = from;
  const partEnd = Math.min(end, from + partLeavesMax);
  while (next < partEnd && characters < partCharactersMax) {
    const run = await deps.records.readRun(next, Math.min(tileWidth, partEnd - next), isOurs);
    if (run.length === 0) throw new Error(`record ${next} is missing`);
    const added = [renderBundleLeaves(run.map(entryOf))];
    for (const record of run) {
      if (isOurs(record)) added.push(renderBundleRecord(await bundledOf(call, record, tenant)));
    }
    for (const line of added) characters += line.length;
    written.push(...added);
    next += run.length;
  }
  return `{"next":${next},"lines":[${written.join(',')}]}`;
}

function entryOf({ pseudonyms, commitment }: KeptRecord): Buffer {
  return renderLeaf({ ...pseudonyms, commitment: commitment.toString('base64url') });
}

async function bundledOf(
  { deps, identity }: Call,
  record: ShownRecord,
  tenant: string,
): Promise<BundleRecord> {
  const { index, pseudonyms, opened, isAltered } = record;
  if (isAltered) return { index, opening: null, erasedBy: null, isAltered };
  if (!opened) {
    const erasedBy = (await readErasure(deps.read, index, tenant)) ?? null;
    return { index, opening: null, erasedBy };
  }
  const { salt, evidence: text } = opened;
  const { keyThumbprint } = identity;
  const isShown =
    text !== null && withheldUntilMs(text, { keyThumbprint, nowMs: nowMs() }) === null;
  const evidence = isShown ? (JSON.parse(text) as unknown) : null;
  const opening = { ...pseudonyms, salt, record: opened.record, evidence };
  return { index, opening, erasedBy: null };
}
