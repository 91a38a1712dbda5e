// How long a decision takes among grants to ten thousand principals, from a hundred grants to a
// million, and what they cost in memory. No server, no disk: the engine alone.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { decideAccess } from '#bursar/authz/grants/decide.js';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import { parsePolicy } from '#bursar/authz/grants/policy.js';
import { subjectsOf } from '#bursar/authz/grants/subjects.js';
import { count, number, table, times } from './markdown.mjs';

const principalCount = 10_000;
const groupCount = 500;
const bucketCount = 100;
/** So many grants are remembered, to ask for what they are about and to be replaced. */
const rememberedMax = 20_000;
const fewestGrants = 100;
const tenant = 'cms';

/** mulberry32: every run asks the same. */
function seededRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = seededRandom(1);
const below = (bound) => Math.floor(random() * bound);
const padded = (number, length) => String(number).padStart(length, '0');

const principalName = (i) => `user${padded(i, 5)}`;
const bucketName = (i) => `dataset-${padded(i, 3)}`;
const groupsOf = (i) => [i % groupCount, (i * 7 + 1) % groupCount, (i * 13 + 2) % groupCount];
const groupName = (i) => `team${padded(i, 3)}`;

function runPath() {
  return `raw/${2000 + below(27)}/run${padded(below(100_000), 6)}`;
}

/** Who: mostly single principals, a quarter groups, a few places for everybody in the tenant. */
function subjectAt(i) {
  const kind = i % 20;
  if (kind === 0) return `tenant:${tenant}`;
  if (kind < 6) return `group:${tenant}/${groupName(below(groupCount))}`;
  return `principal:${tenant}/${principalName(below(principalCount))}`;
}

/** Where: prefixes of three depths, whole buckets, and for a tenth single objects. */
function placeAt(i) {
  const kind = i % 10;
  const path = runPath();
  if (kind === 0) return { key: `${path}/part-${padded(below(1000), 4)}.root` };
  if (kind === 1 && i % 100 === 1) return {};
  if (kind < 4) return { prefix: `${path}/hits/` };
  return { prefix: `${path}/` };
}

function grantAt(i) {
  return {
    name: `g${padded(i, 7)}`,
    effect: i % 33 === 0 ? 'deny' : 'allow',
    subjects: [subjectAt(i)],
    actions: i % 3 === 0 ? ['s3:GetObject', 's3:PutObject'] : ['s3:GetObject'],
    bucket: bucketName(below(bucketCount)),
    ...placeAt(i),
    ...(i % 50 === 0 && { conditions: { IpAddress: { 'aws:SourceIp': ['192.0.2.0/24'] } } }),
  };
}

const facts = {
  timeMs: Date.parse('2026-06-15T12:00:00Z'),
  sourceAddress: '192.0.2.1',
  isSecure: true,
  headers: {},
  query: [],
  versionId: null,
  copySource: null,
  authentication: null,
  requestTags: new Map(),
  objectTags: undefined,
};

/** Half of the requests are for what somebody was granted, half for anything; a fifth are lists. */
function requestFor(grant) {
  const [, named] = /^principal:cms\/user(\d+)$/.exec(grant.subjects[0]) ?? [];
  const isMeant = random() < 0.5;
  const number = isMeant && named !== undefined ? Number(named) : below(principalCount);
  const name = principalName(number);
  const who = { tenant, name, id: `${tenant}/${name}`, kind: 'person', role: 'member' };
  const place = isMeant
    ? (grant.key ?? `${grant.prefix ?? ''}x/y.root`)
    : `${runPath()}/hits/y.root`;
  const isList = random() < 0.2;
  const listPrefix = isList ? place.slice(0, place.lastIndexOf('/') + 1) : null;
  return {
    who: { ...who, membersCreateBuckets: true },
    subjects: subjectsOf(who, groupsOf(number).map(groupName)),
    action: isList ? 's3:ListBucket' : 's3:GetObject',
    tenant,
    bucket: isMeant ? grant.bucket : bucketName(below(bucketCount)),
    owner: 'owner',
    key: isList ? null : place,
    listPrefix,
    facts,
  };
}

function heapBytes(collect) {
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Microseconds that each call took, in order. */
function timed(items, use) {
  const timesUs = new Float64Array(items.length);
  for (let i = 0; i < items.length; i++) {
    const start = performance.now();
    use(items[i]);
    timesUs[i] = (performance.now() - start) * 1000;
  }
  return timesUs.sort();
}

function quantiles(timesUs) {
  const at = (share) => timesUs[Math.min(timesUs.length - 1, Math.floor(timesUs.length * share))];
  return { medianUs: at(0.5), p99Us: at(0.99) };
}

/** As many statements as 20 KiB hold, none of which allows anything. */
function longestPolicy() {
  const statements = [];
  let text = '';
  for (let i = 0; ; i++) {
    const Resource = `arn:aws:s3:::dataset-000/x*${i}*y`;
    statements.push({ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource });
    const longer = JSON.stringify({ Version: '2012-10-17', Statement: statements });
    if (longer.length > 20 * 1024)
      return parsePolicy(Buffer.from(text), { tenant, name: 'dataset-000' });
    text = longer;
  }
}

/** @param {{effort: {grants: number}, say: (line: string) => void}} options a power of ten */
export function benchDecisions({ effort: { grants: grantCount }, say }) {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  const index = new GrantIndex();
  const remembered = [];
  const steps = [];
  const before = heapBytes(collect);
  let loadMs = 0;
  for (let end = fewestGrants; end <= grantCount; end *= 10) {
    loadMs += load(index, end, remembered);
    const askedCount = Math.min(rememberedMax, grantCount);
    steps.push(measureAt(index, { grants: end, loadMs, remembered, askedCount }));
    say(`decisions: ${end} grants, ${steps.at(-1).decisions.medianUs.toFixed(1)} µs`);
  }
  const policy = longestPolicy();
  const ofBucket = remembered.map((one) => ({ ...requestFor(one), bucket: 'dataset-000' }));
  const withPolicy = quantiles(timed(ofBucket, (one) => decideAccess(index, one, policy)));
  // Requests and remembered grants are the bench's own.
  ofBucket.length = 0;
  remembered.length = 0;
  const bytesPerGrant = (heapBytes(collect) - before) / grantCount;
  if (index.count !== grantCount) throw new Error('the index lost grants');
  return { steps, withPolicy, bytesPerGrant };
}

/** Adds grants until there are `end`; gives the milliseconds that the index took. */
function load(index, end, remembered) {
  let addedMs = 0;
  while (index.count < end) {
    const some = Array.from({ length: Math.min(end - index.count, 1000) }, (_, n) => {
      const i = index.count + n;
      // As a database gives it: texts in one piece.
      const grant = JSON.parse(JSON.stringify(grantAt(i)));
      const at = i < rememberedMax ? i : below(i);
      if (at < rememberedMax) remembered[at] = grant;
      return grant;
    });
    const startMs = performance.now();
    for (const grant of some) index.add(tenant, grant);
    addedMs += performance.now() - startMs;
  }
  return addedMs;
}

function measureAt(index, { grants, loadMs, remembered, askedCount }) {
  const asked = Array.from({ length: askedCount }, (_, i) =>
    requestFor(remembered[i % remembered.length]),
  );
  const outcomes = { allowed: 0, denied: 0 };
  const decide = (request) => {
    outcomes[decideAccess(index, request).allowed ? 'allowed' : 'denied'] += 1;
  };
  timed(asked, decide);
  outcomes.allowed = 0;
  outcomes.denied = 0;
  const decisions = quantiles(timed(asked, decide));
  if (outcomes.allowed < asked.length / 10 || outcomes.denied < asked.length / 10) {
    throw new Error(`too few of one kind of decision: ${JSON.stringify(outcomes)}`);
  }
  const replace = (grant) => {
    index.remove(tenant, grant);
    index.add(tenant, grant);
  };
  timed(remembered, replace);
  const changes = quantiles(timed(remembered, replace));
  return { grants, decisions, changes, loadMs };
}

export function describeDecisions({ steps, withPolicy, bytesPerGrant }) {
  const [first] = steps;
  const shown = ({ medianUs, p99Us }, firstUs) =>
    `**${number(medianUs)}** (${number(p99Us)}), ${times(medianUs / firstUs)}`;
  return [
    `The engine alone, without a server: what ${count(principalCount)} principals may do in`,
    `${bucketCount} buckets, by grants to them, to ${groupCount} groups and to everybody. ` +
      'Microseconds:',
    'median, 99th percentile in brackets, and the median divided by that among the fewest grants.',
    '',
    ...table({
      head: ['Grants', 'a decision', 'a grant replaced', 'all added, ms'],
      rows: steps.map(({ grants, decisions, changes, loadMs }) => [
        count(grants),
        shown(decisions, first.decisions.medianUs),
        shown(changes, first.changes.medianUs),
        number(loadMs),
      ]),
    }),
    `Among the most, with a bucket policy of 20 KiB besides: ${number(withPolicy.medianUs)} µs`,
    `(${number(withPolicy.p99Us)}). A grant takes ${Math.round(bytesPerGrant)} bytes of memory.`,
    '',
  ];
}
