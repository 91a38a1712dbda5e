// Native API: the changes of objects in a tenant's buckets, in the order of the log, to be read
// from a cursor on and waited for. Invariants: who asks is told of a change only if they may list
// the bucket below the prefix that they name, and read the object, by what is true when they are
// told; and a cursor moves past what they may not see, so that it misses nothing.
import type { ObjectChange } from '../../audit/changes/object-change.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import type { Principal } from '../../core/principal.ts';
import { bucketScope, principalScope, type Scope, tenantScope } from '../../ledger/scopes.ts';
import { listingOf as listing, mayKnowWho, readingOf } from '../changes/readable.ts';
import { eventBytes } from '../changes/s3-event.ts';
import type { Access } from '../s3/access.ts';
import { lookUpBucket, type NamedBucket } from '../s3/bucket-lookup.ts';
import { checkKeyLength } from '../s3/request.ts';
import { type Call, checkPlace, param, routeTable } from './route.ts';
import { answerObject, boolean, text } from './schemas.ts';

const limitDefault = 1000;
export const changeRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/changes',
    action: 'bursar:ReadChanges',
    isPolled: true,
    summary:
      'What became of objects in buckets of the tenant, as S3 tells of it, in the order of the ' +
      'log: of those that the caller may list and read. A page may be empty and still move on: ' +
      'the next is read from its `next` on, for ever.',
    query: {
      after: text('The `next` of the page before; `now`: what comes. Absent: from the beginning.', {
        pattern: '^(now|-1|[0-9]{1,15})$',
      }),
      wait: text('How many seconds to wait for something to tell, at most 30. Absent: none.', {
        pattern: '^([0-9]|[12][0-9]|30)$',
      }),
      bucket: text('Of this bucket, as S3 clients name it: also a mount, or `tenant:bucket`.'),
      prefix: text('Of object keys that begin so.'),
      limit: text(`Changes a page, 1 to 1000; ${limitDefault} if absent.`, {
        pattern: '^([1-9][0-9]{0,2}|1000)$',
      }),
    },
    answer: answerObject({
      Records: {
        type: 'array',
        description: 'Event messages of S3, version 2.1; `bursar` has the index of the receipt.',
        items: { type: 'object', additionalProperties: true },
      },
      altered: {
        type: 'array',
        description:
          "Records of the tenant that are not what was recorded: what they told of can't be known.",
        items: { type: 'integer' },
      },
      next: text('Where the next page begins.'),
      more: boolean('Was there more in the log than was looked at?'),
    }),
    run: async (call) => ({ answer: await readChanges(call) }),
  },
]);

/** A bucket of which changes are told. */
interface Followed {
  found: NamedBucket;
  /** As it is called in the answer. */
  name: string;
  /** Records up to this one are not about it. */
  begin: number;
}

/** The answer, as JSON: what many are told is written once, and not for each of them. */
async function readChanges(call: Call): Promise<Buffer> {
  const { query, deps, request } = call;
  const { changes: log } = deps;
  const prefix = query.prefix ?? '';
  checkKeyLength(prefix);
  const gone = new AbortController();
  const leave = () => gone.abort();
  request.raw.socket.once('close', leave);
  const limit = Number(query.limit ?? limitDefault);
  const deadlineMs = call.sinceMs + Number(query.wait ?? 0) * 1000;
  try {
    let after = query.after === 'now' ? await log.newest() : Number(query.after ?? -1);
    // From there also where the answer is prepared again.
    query.after = String(after);
    for (;;) {
      let teller = await Teller.begin(call, prefix);
      let page = await log.read({ ...teller.of, prefix, after, limit });
      const leftMs = (): number => (gone.signal.aborted ? 0 : deadlineMs - performance.now());
      const { length } = page.changes;
      if (length > 0 && length < limit && page.isEnd && leftMs() > 0) {
        await log.gather(call.who.tenant, leftMs(), gone.signal);
        // Nothing is decided yet: that is by what is true when it is told.
        if (!teller.isCurrent) teller = await Teller.begin(call, prefix);
        page = await log.read({ ...teller.of, prefix, after, limit });
      }
      const told = await teller.tell(page.changes);
      const { altered, through, isEnd } = page;
      if (told.length > 0 || altered.length > 0 || leftMs() <= 0) {
        return pageOf(told, { altered, next: String(through), more: !isEnd });
      }
      after = through;
      if (!isEnd || !teller.isCurrent) continue;
      const of = { ...teller.of, prefix, after };
      const passed = await log.waitPast(of, teller.rests, leftMs(), gone.signal);
      if (passed === null) gone.abort();
      else after = passed;
    }
  } finally {
    request.raw.socket.off('close', leave);
  }
}

function pageOf(
  told: readonly Buffer[],
  rest: { altered: readonly number[]; next: string; more: boolean },
): Buffer {
  const parts: Buffer[] = [Buffer.from('{"Records":[')];
  for (const [i, event] of told.entries()) {
    if (i > 0) parts.push(comma);
    parts.push(event);
  }
  parts.push(Buffer.from(`],${JSON.stringify(rest).slice(1)}`));
  return Buffer.concat(parts);
}

const comma = Buffer.from(',');

/** Tells one page, by the rights of one epoch, of who asks as they are then. */
class Teller {
  readonly #call: Call;
  readonly #who: Principal;
  readonly #epoch: number;
  /** On which the answer rests, besides those that it is recorded with. */
  readonly #scopes: Scope[];
  readonly #access: Pick<Access, 'demand' | 'allows'>;
  readonly #prefix: string;
  /** null: the one bucket that was asked for is enough. */
  readonly #asked: Followed | null;
  /** By name in the tenant; null: the caller may not list it, or it is not there. */
  readonly #followed = new Map<string, Followed | null>();

  private constructor(
    call: Call,
    { epoch, who }: Awaited<ReturnType<Call['decideAgain']>>,
    { access, prefix }: { access: Pick<Access, 'demand' | 'allows'>; prefix: string },
    asked: Followed | null,
  ) {
    this.#call = call;
    this.#who = who.principal;
    this.#epoch = epoch;
    this.#access = access;
    this.#prefix = prefix;
    this.#asked = asked;
    const tenant = param(call, 't');
    this.#scopes = asked ? scopesOf(asked.found) : [tenantScope(tenant)];
  }

  /**
   * Throws `Refusal` as for a call that came now: who asks may not read changes any more, or the
   * bucket that is asked for is not there, or not to be listed.
   */
  static async begin(call: Call, prefix: string): Promise<Teller> {
    const { deps, query, request } = call;
    const decided = await call.decideAgain();
    const { who, epoch } = decided;
    const how = { access: deps.accessOf(request, who), prefix };
    const { bucket: askedName } = query;
    const tenant = param(call, 't');
    // Their own is there.
    if (tenant !== who.principal.tenant) await checkPlace(call);
    if (askedName === undefined) {
      call.restOn(epoch, []);
      return new Teller(call, decided, how, null);
    }
    // Names of one's own count in one's own tenant.
    const namer = tenant === who.principal.tenant ? who.principal : { tenant };
    const found = await lookUpBucket(deps, namer, askedName);
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(found.tenant, found.name);
    call.restOn(epoch, scopesOf(found));
    await how.access.demand(listing(found, askedName, prefix));
    // What a name stands for is told to nobody else.
    if (found.at || found.where !== undefined) {
      const message = found.at
        ? `${askedName} shows a bucket as it was: nothing of that changes.`
        : `${askedName} shows what fits a query: follow the bucket itself.`;
      throw new Refusal('InvalidInput', { message, fields: { field: 'query.bucket' } });
    }
    if (!found.bucket) throw new Refusal('NoSuchBucket');
    const begin = await deps.bucketBeginnings.find(found.bucket);
    return new Teller(call, decided, how, { found, name: askedName, begin });
  }

  /** Nobody's rights were taken away since. */
  get isCurrent(): boolean {
    return this.#call.deps.rights.epoch === this.#epoch;
  }

  /** The scopes by whose rights who asks may wait. */
  get rests(): Scope[] {
    const { tenant, name } = this.#who;
    const place = tenantScope(param(this.#call, 't'));
    return [tenantScope(tenant), principalScope(tenant, name), place, ...this.#scopes];
  }

  /** The tenant and the bucket whose changes are to be read; undefined: any of the tenant's. */
  get of(): { tenant: string; bucket: string | undefined } {
    const found = this.#asked?.found;
    return { tenant: found?.tenant ?? param(this.#call, 't'), bucket: found?.name };
  }

  /** Those that the caller may know of, as they are told. */
  async tell(changes: readonly ObjectChange[]): Promise<Buffer[]> {
    const told: Buffer[] = [];
    const pace = new Pace();
    // Whatever is no promise is not awaited: most decisions take less than that.
    for (const change of changes) {
      if (pace.isDue) await pace.wait();
      const known = this.#asked ?? this.#followed.get(change.bucket);
      const followed = known === undefined ? await this.#find(change.bucket) : known;
      if (!followed || change.index <= followed.begin) continue;
      const deciding = this.#mayRead(change, followed);
      if (typeof deciding === 'boolean' ? deciding : await deciding) {
        told.push(this.#render(change, followed.name));
      }
    }
    this.#call.restOn(this.#epoch, this.#scopes);
    return told;
  }

  async #find(name: string): Promise<Followed | null> {
    const { deps } = this.#call;
    const tenant = param(this.#call, 't');
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(tenant, name);
    const bucket = await deps.buckets.find(tenant, name);
    const found: NamedBucket = { tenant, name, bucket };
    const asked = this.#nameOf(tenant, name);
    this.#scopes.push(bucketScope(tenant, name));
    const isSeen =
      bucket !== undefined && (await this.#access.allows(listing(found, asked, this.#prefix)));
    const followed = isSeen
      ? { found, name: asked, begin: await deps.bucketBeginnings.find(bucket) }
      : null;
    this.#followed.set(name, followed);
    return followed;
  }

  /** As the caller would name it. */
  #nameOf(tenant: string, name: string): string {
    return tenant === this.#who.tenant ? name : `${tenant}:${name}`;
  }

  #mayRead({ key }: ObjectChange, { found, name }: Followed): boolean | Promise<boolean> {
    return this.#access.allows(readingOf(this.#call.deps, found, { askedName: name, key }));
  }

  #render(change: ObjectChange, name: string): Buffer {
    const { region } = this.#call.deps;
    const tellsWho = mayKnowWho(this.#who, change);
    return eventBytes(change, { region, bucket: name, tellsWho });
  }
}

function scopesOf({ tenant, name }: NamedBucket): Scope[] {
  return [tenantScope(tenant), bucketScope(tenant, name)];
}
