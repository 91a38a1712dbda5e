// Native API: jobs that others do for the gateway, and the recipes of objects. Invariants: who asks
// sees a job only if they may list and read its object, leases it only if they may also write that,
// and says what becomes of one, by its number, if they may read and write its object, by what is
// true when they ask; and nothing is counted before that is decided.
import { randomBytes } from 'node:crypto';
import { findHeld } from '../../catalog/held-rows.ts';
import { isLost } from '../../catalog/lost-versions.ts';
import {
  type Attributes,
  findNamed,
  findVersion,
  type Tags,
  type Version,
} from '../../catalog/versions.ts';
import {
  findJob,
  type Job,
  listJobs,
  listLeased,
  problemLengthMax,
  stateOf,
} from '../../catalog/work.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import type { Principal } from '../../core/principal.ts';
import { attachedRecipe } from '../../core/recipe.ts';
import { bucketScope, type Scope, tenantScope } from '../../ledger/scopes.ts';
import { listingOf, readingOf } from '../changes/readable.ts';
import type { Access, Target } from '../s3/access.ts';
import { idOf } from '../s3/asked-version.ts';
import { lookUpBucket, type NamedBucket } from '../s3/bucket-lookup.ts';
import { attributeHeaders } from '../s3/objects/object-attributes.ts';
import { checkKeyLength } from '../s3/request.ts';
import type { Identity } from './deps.ts';
import { administers } from './rights.ts';
import { type Call, checkPlace, param, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  closedObject,
  integer,
  integerOrNull,
  type Json,
  text,
  textOrNull,
  time,
} from './schemas.ts';

/** How many jobs one call looks at. */
const lookedAtMax = 1000;
const leasesMax = 100;
const exceptMax = 1000;
const secondsMin = 10;
const secondsMax = 12 * 60 * 60;

const shownJob = {
  id: integer('The number of the version that is lost.'),
  kind: text('What is to be done: `recipe` makes an object again.', { enum: ['recipe'] }),
  bucket: text('As S3 clients name it.'),
  key: { type: 'string' },
  state: text('`due`, `leased`, `waiting` after a failure, or `dead`: it is not tried any more.', {
    enum: ['due', 'leased', 'waiting', 'dead'],
  }),
  madeAt: { ...time, description: 'When the loss was recorded.' },
  dueAt: { ...time, description: 'When it can be leased, or when its lease ends.' },
  tries: integer('How often it was leased.'),
  holder: textOrNull('Who has it.'),
  problem: textOrNull('What its last try failed with, for those who may write the object.'),
} as const;

const leasedJob = answerObject({
  ...shownJob,
  versionId: text('Of the lost version; `null` in a bucket that never had versioning.'),
  size: integer('Bytes.'),
  sha256: textOrNull('Of its bytes, hex; null: it was uploaded in parts.'),
  recipe: textOrNull('What the object says of its recipe: JSON, or `s3://BUCKET/KEY`.'),
  headers: {
    ...{ type: 'object', additionalProperties: { type: 'string' } },
    description: 'With which it is to be written.',
  },
});

const place = {
  bucket: text('Of this bucket, as S3 clients name it. Absent: of all in the tenant.'),
  prefix: text('Of object keys that begin so.'),
  after: text('The `next` of the page before.', { pattern: '^[0-9]{1,15}$' }),
};

const leaseSchema = closedObject({
  ...place,
  max: integer(`How many at most, 1 to ${leasesMax}; 1 if absent.`, {
    ...{ minimum: 1, maximum: leasesMax, default: 1 },
  }),
  seconds: integer('For how long: others get it after that, unless it was made longer.', {
    ...{ minimum: secondsMin, maximum: secondsMax, default: 900 },
  }),
  except: {
    type: 'array',
    items: { type: 'integer', minimum: 0 },
    maxItems: exceptMax,
    description: 'Numbers of jobs that the caller does not want.',
  } as const,
});

const updateSchema = closedObject({
  lease: text('By which the job is held.', { pattern: '^[0-9a-f]{32}$' }),
  seconds: integer('Hold it for so long from now on.', {
    ...{ minimum: secondsMin, maximum: secondsMax },
  }),
  defer: integer('It is given back, due after so many seconds; the try does not count.', {
    ...{ minimum: 0, maximum: secondsMax },
  }),
  problem: text('Why it has failed: it waits, and is leased again. Or why it is given back.', {
    ...{ minLength: 1, maxLength: problemLengthMax },
  }),
  final: boolean('Trying again would not help.'),
  retry: boolean('Of a dead one, which nobody holds: it is tried again.'),
});

const next = textOrNull('Where the next page begins; null: that was all.');

export const workRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/work',
    action: 'bursar:ListWork',
    isPolled: true,
    summary:
      'Jobs that make lost objects of the tenant again, of those that the caller may list and ' +
      'read. A page looks at 1000; it may be empty and have a `next`.',
    query: place,
    answer: answerObject({ jobs: { type: 'array', items: answerObject(shownJob) }, next }),
    run: async (call) => {
      const desk = await WorkDesk.begin(call, call.query);
      const { jobs, next } = await desk.list();
      const shown = [];
      for (const job of jobs) shown.push(await desk.show(job));
      return { answer: { jobs: shown, next } };
    },
  },
  {
    method: 'POST',
    url: '/_/v1/tenants/:t/work/leases',
    action: 'bursar:LeaseWork',
    isReading: true,
    isPolled: true,
    summary:
      'Take jobs that are due, of objects that the caller may read and write. They are done by a ' +
      'write with `x-bursar-remakes`.',
    body: leaseSchema,
    answer: answerObject({
      lease: text('By which they are held.'),
      jobs: { type: 'array', items: leasedJob },
      next,
    }),
    run: async (call) => {
      const asked = call.body as Json<typeof leaseSchema>;
      const desk = await WorkDesk.begin(call, asked);
      return { answer: await desk.lease(asked) };
    },
  },
  {
    method: 'PUT',
    url: '/_/v1/tenants/:t/work/:id',
    action: 'bursar:UpdateWork',
    isReading: true,
    isPolled: true,
    summary:
      'Hold a job longer, say that it has failed, give it back, or have a dead one tried again.',
    body: updateSchema,
    answer: answerObject(shownJob),
    run: async (call) => ({ answer: await update(call) }),
  },
]);

export const recipeRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/recipe',
    action: 'bursar:GetRecipe',
    summary: 'What an object says of its recipe, also one that is lost.',
    query: {
      bucket: text('As S3 clients name it.'),
      key: text('Of the object.'),
      versionId: text('Of one version. Absent: the newest.', { pattern: '^(null|[0-9a-f]{32})$' }),
    },
    answer: answerObject({
      recipe: textOrNull('JSON, or `s3://BUCKET/KEY`; null: it has none.'),
      version: integer('Its number.'),
      versionId: text('Of the version; `null` in a bucket that never had versioning.'),
      size: integer('Bytes.'),
      sha256: textOrNull('Of its bytes, hex; null: it was uploaded in parts.'),
      lost: boolean('No store has it any more.'),
      tries: integerOrNull('How often somebody began to make it again; null: there is no job.'),
    }),
    run: async (call) => ({ answer: await readRecipe(call) }),
  },
]);

async function readRecipe(call: Call): Promise<object> {
  const { bucket, key, versionId } = call.query;
  if (bucket === undefined || key === undefined) {
    throw new Refusal('InvalidInput', { fields: { field: 'query' } });
  }
  const desk = await WorkDesk.begin(call, { bucket });
  return desk.readRecipe(key, versionId);
}

async function update(call: Call): Promise<object> {
  const id = param(call, 'id');
  const seq = /^\d{1,15}$/.test(id) ? Number(id) : -1;
  const found = await findJob(call.deps.read, seq);
  const desk = await WorkDesk.begin(call, {}, found);
  const job = await desk.findWritable(seq);
  if (!job) throw new Refusal('NotFound', { message: `There is no job ${id}.` });
  const body = call.body as Json<typeof updateSchema>;
  const touched = await call.deps.work({ kind: 'amendWork', seq, ...amendmentOf(body) });
  if (touched === 0) {
    const message = body.lease === undefined ? 'The job is not dead.' : 'The lease has ended.';
    throw new Refusal('PreconditionFailed', { message });
  }
  return desk.show((await findJob(call.deps.read, seq)) ?? job);
}

/** Throws `Refusal` InvalidInput for a body that says not one thing. */
function amendmentOf(body: Json<typeof updateSchema>) {
  const { lease, seconds, defer, problem, final: isFinal = false, retry } = body;
  const why = problem?.toWellFormed() ?? null;
  const nowMs = Date.now();
  const others = defer === undefined ? problem : defer;
  const given = [seconds, others, retry].filter((one) => one !== undefined && one !== false);
  if (given.length === 1 && (lease === undefined) === (retry === true)) {
    if (lease === undefined) return { isAgain: true } as const;
    if (seconds !== undefined) return { lease, untilMs: nowMs + seconds * 1000 };
    if (defer !== undefined) return { lease, dueMs: nowMs + defer * 1000, why };
    if (why !== null) return { lease, problem: why, isFinal };
  }
  const message = 'Say `lease` with `seconds`, `problem` or `defer`, or `retry` alone.';
  throw new Refusal('InvalidInput', { message, fields: { field: 'body' } });
}

interface AskedPlace {
  bucket?: string | undefined;
  prefix?: string | undefined;
  after?: string | undefined;
}

/** By what a call was decided. */
interface Decided {
  epoch: number;
  who: Identity;
  scopes: Scope[];
}

/** Answers one call, by the rights of one epoch, of who asks as they are then. */
class WorkDesk {
  readonly #call: Call;
  readonly #who: Principal;
  readonly #epoch: number;
  /** On which the answer rests, besides those that it is recorded with. */
  readonly #scopes: Scope[];
  readonly #access: Pick<Access, 'allows'>;
  readonly #prefix: string;
  readonly #after: number;
  /** null: of all buckets. */
  readonly #asked: NamedBucket | null;
  /** Of one job that the caller named: that it is there is not found by a list. */
  readonly #isOfOne: boolean;
  /** By name in the tenant; null: the caller may not list it. */
  readonly #seen = new Map<string, NamedBucket | null>();

  private constructor(
    call: Call,
    { epoch, who, scopes }: Decided,
    { prefix = '', after = '-1' }: AskedPlace,
    { asked, isOfOne = false }: { asked: NamedBucket | null; isOfOne?: boolean },
  ) {
    const access = call.deps.accessOf(call.request, who);
    this.#call = call;
    this.#who = who.principal;
    this.#epoch = epoch;
    this.#scopes = scopes;
    this.#access = access;
    this.#prefix = prefix;
    this.#after = Number(after);
    this.#asked = asked;
    this.#isOfOne = isOfOne;
  }

  /**
   * `about`: the one job that the call is about. Throws `Refusal` as for a call that came now, and
   * where the bucket that is asked for is not there, or not to be listed.
   */
  static async begin(call: Call, asked: AskedPlace, about?: Job): Promise<WorkDesk> {
    const { deps } = call;
    await checkPlace(call);
    checkKeyLength(asked.prefix ?? '');
    const decided = await call.decideAgain();
    const { epoch, who } = decided;
    const tenant = param(call, 't');
    if (asked.bucket === undefined) {
      const scopes = about ? scopesOf(about.tenant, about.bucket) : [];
      call.restOn(epoch, scopes);
      const isOfOne = about !== undefined;
      return new WorkDesk(call, { ...decided, scopes }, asked, { asked: null, isOfOne });
    }
    const namer = tenant === who.principal.tenant ? who.principal : { tenant };
    const found = await lookUpBucket(deps, namer, asked.bucket);
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(found.tenant, found.name);
    const scopes = scopesOf(found.tenant, found.name);
    call.restOn(epoch, scopes);
    // Conditions on `s3:prefix` are of what is asked for here, which is not in the query.
    const listing = listingOf(found, asked.bucket, asked.prefix ?? '');
    const desk = new WorkDesk(call, { ...decided, scopes }, asked, { asked: found });
    if (!(await desk.#access.allows(listing))) throw new Refusal('AccessDenied');
    if (found.at || found.where !== undefined) {
      const message = `${asked.bucket} is no bucket, but a view of one.`;
      throw new Refusal('InvalidInput', { message, fields: { field: 'bucket' } });
    }
    if (!found.bucket) throw new Refusal('NoSuchBucket');
    return desk;
  }

  async list(
    leasableMs?: number,
    { max = lookedAtMax, except }: { max?: number; except?: readonly number[] | undefined } = {},
  ): Promise<{ jobs: Job[]; next: string | null }> {
    const { read } = this.#call.deps;
    const looked = await listJobs(read, {
      tenant: this.#asked?.tenant ?? param(this.#call, 't'),
      bucketId: this.#asked?.bucket?.id,
      prefix: this.#prefix,
      after: this.#after,
      ...{ max: lookedAtMax, except },
      ...(leasableMs === undefined ? {} : { leasableMs }),
    });
    const jobs: Job[] = [];
    const pace = new Pace();
    let last: Job | undefined;
    for (const job of looked) {
      last = job;
      if (await this.#maySee(job, leasableMs !== undefined)) jobs.push(job);
      if (jobs.length === max) break;
      await pace.rest();
    }
    const isAll = last === looked.at(-1) && looked.length < lookedAtMax;
    return { jobs, next: isAll || !last ? null : String(last.seq) };
  }

  async lease(asked: Json<typeof leaseSchema>): Promise<object> {
    const { max = 1, seconds = 900, except } = asked;
    const { deps } = this.#call;
    const who = this.#who;
    const { jobs, next } = await this.list(Date.now(), { max, except });
    const lease = randomBytes(16).toString('hex');
    if (jobs.length === 0) return { lease, jobs: [], next };
    const untilMs = Date.now() + seconds * 1000;
    const seqs = jobs.map(({ seq }) => seq);
    const holder = `${who.tenant}/${who.name}`;
    await deps.work({ kind: 'leaseWork', seqs, lease, holder, untilMs });
    const leased = await listLeased(deps.read, lease);
    const shown: object[] = [];
    for (const job of jobs) {
      if (!leased.has(job.seq)) continue;
      const now = (await findJob(deps.read, job.seq)) ?? job;
      const described = await this.#describe(now);
      if (described) shown.push({ ...(await this.show(now)), ...described });
    }
    return { lease, jobs: shown, next };
  }

  /** The job of an object that the caller may read and write; undefined: there is none. */
  async findWritable(seq: number): Promise<Job | undefined> {
    const job = await findJob(this.#call.deps.read, seq);
    // Of another tenant's bucket it is leased, too, in the caller's own tenant.
    return job && (await this.#maySee(job, true)) ? job : undefined;
  }

  async readRecipe(key: string, versionId: string | undefined): Promise<object> {
    const { deps } = this.#call;
    const found = this.#asked as NamedBucket;
    checkKeyLength(key);
    const name = { askedName: this.#nameOf(found), key, versionId };
    const reading = readingOf(deps, found, name);
    if (!(await this.#access.allows(reading))) {
      throw new Refusal('AccessDenied');
    }
    const bucket = found.bucket as NonNullable<NamedBucket['bucket']>;
    const version = await findNamed(deps, bucket, { key, versionId });
    if (!version || version.isMarker) throw new Refusal('NoSuchKey', { fields: { Key: key } });
    const isLostNow = await isLost(deps.read, version.seq);
    const job = await findJob(deps.read, version.seq);
    return {
      ...recipeOf(version, await this.#readTags(reading, version)),
      version: version.seq,
      versionId: idOf(version),
      lost: isLostNow,
      tries: job?.tries ?? null,
    };
  }

  async show(job: Job): Promise<object> {
    const { seq: id, key, madeMs, dueMs, tries, holder } = job;
    // It names inputs, and has what a command said of them.
    const problem = job.problem !== null && (await this.#mayKnowWhy(job)) ? job.problem : null;
    return {
      ...{ id, kind: 'recipe', bucket: this.#named(job), key, state: stateOf(job, Date.now()) },
      ...{ madeAt: isoTime(madeMs), dueAt: isoTime(dueMs), tries, holder, problem },
    };
  }

  /** undefined: it is not there any more, or not what was written. */
  async #describe(job: Job): Promise<object | undefined> {
    const { key, seq, tenant, bucket: name } = job;
    const { deps } = this.#call;
    const bucket = await deps.buckets.find(tenant, name);
    if (!bucket) return undefined;
    const at = { key, seq };
    const version = (await findVersion(deps, bucket, at)) ?? (await findHeld(deps, bucket, at));
    if (!version) return undefined;
    const attributes = JSON.parse(version.attributes) as Attributes;
    const readable = await this.#readTags(this.#reading({ tenant, name, bucket }, job), version);
    const tags = new URLSearchParams(
      readable.map(([name, value]): [string, string] => [name, value]),
    ).toString();
    return {
      ...recipeOf(version, readable),
      versionId: idOf(version),
      headers: {
        ...attributeHeaders({ headers: attributes.headers, metadata: attributes.metadata }),
        'x-amz-storage-class': version.class,
        ...(tags === '' ? {} : { 'x-amz-tagging': tags }),
      },
    };
  }

  async #maySee(job: Job, isToWrite: boolean): Promise<boolean> {
    const found = await this.#find(job.tenant, job.bucket);
    if (!found || !(await this.#access.allows(this.#reading(found, job)))) return false;
    return !isToWrite || this.#mayWrite(found, job);
  }

  /** Of an older version that takes the right to read versions. */
  #reading(found: NamedBucket, { key, isNewest, versionId }: Job): Target {
    const older = isNewest ? {} : { versionId: versionId ?? 'null' };
    return readingOf(this.#call.deps, found, { askedName: this.#nameOf(found), key, ...older });
  }

  #mayWrite(found: NamedBucket, { key }: Job): boolean | Promise<boolean> {
    const askedName = this.#nameOf(found);
    return this.#access.allows({
      ...{ action: 's3:PutObject', askedName, found, key, listPrefix: null },
    });
  }

  async #mayKnowWhy(job: Job): Promise<boolean> {
    const who = this.#who;
    if (administers(who, job.tenant) || job.holder === `${who.tenant}/${who.name}`) return true;
    const found = await this.#find(job.tenant, job.bucket);
    return found !== null && this.#mayWrite(found, job);
  }

  /** Of a version that the caller may read: none, unless they may read these, too. */
  async #readTags(reading: Target, { attributes }: Version): Promise<Tags> {
    const { tags = [] } = JSON.parse(attributes) as Attributes;
    if (tags.length === 0) return tags;
    const isOlder = reading.action === 's3:GetObjectVersion';
    const action = isOlder ? 's3:GetObjectVersionTagging' : 's3:GetObjectTagging';
    return (await this.#access.allows({ ...reading, action })) ? tags : [];
  }

  async #find(tenant: string, name: string): Promise<NamedBucket | null> {
    if (this.#asked) return this.#asked;
    const known = this.#seen.get(name);
    if (known !== undefined) return known;
    const { deps } = this.#call;
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(tenant, name);
    this.#scopes.push(bucketScope(tenant, name));
    this.#call.restOn(this.#epoch, this.#scopes);
    const bucket = await deps.buckets.find(tenant, name);
    const found: NamedBucket = { tenant, name, bucket };
    const isSeen =
      bucket !== undefined &&
      (this.#isOfOne ||
        (await this.#access.allows(listingOf(found, this.#nameOf(found), this.#prefix))));
    this.#seen.set(name, isSeen ? found : null);
    return isSeen ? found : null;
  }

  #nameOf({ tenant, name }: Pick<NamedBucket, 'tenant' | 'name'>): string {
    return tenant === this.#who.tenant ? name : `${tenant}:${name}`;
  }

  #named({ tenant, bucket: name }: Pick<Job, 'tenant' | 'bucket'>): string {
    return this.#nameOf({ tenant, name });
  }
}

function scopesOf(tenant: string, bucket: string): Scope[] {
  return [tenantScope(tenant), bucketScope(tenant, bucket)];
}

function recipeOf(version: Version, tags: Tags): object {
  const { sizeBytes: size, sha256 } = version;
  const { metadata } = JSON.parse(version.attributes) as Attributes;
  const recipe = attachedRecipe({ metadata, tags }) ?? null;
  return { recipe, size, sha256: sha256 && Buffer.from(sha256).toString('hex') };
}
