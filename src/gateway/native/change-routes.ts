// Native API: the changes of objects in a tenant's buckets, in the order of the log, to be read
// from a cursor on and waited for. Invariants: who asks is told of a change only if they may list
// the bucket below the prefix that they name, and read the object, by what is true when they are
// told; and a cursor moves past what they may not see, so that it misses nothing.
import type { ObjectChange } from '../../audit/changes/object-change.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { bucketScope, tenantScope } from '../../ledger/scopes.ts';
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
  // Their own is there.
  if (param(call, 't') !== call.who.tenant) await checkPlace(call);
  const prefix = query.prefix ?? '';
  checkKeyLength(prefix);
  const gone = new AbortController();
  const leave = () => gone.abort();
  request.raw.socket.once('close', leave);
  const deadlineMs = performance.now() + Number(query.wait ?? 0) * 1000;
  try {
    let after = query.after === 'now' ? await log.newest() : Number(query.after ?? -1);
    for (;;) {
      const teller = await Teller.begin(call, prefix);
      const { of, bucket } = teller;
      const limit = Number(query.limit ?? limitDefault);
      const page = await log.read({ tenant: of, bucket, prefix, after, limit });
      const told = await teller.tell(page.changes);
      after = page.through;
      if (told.length > 0 && told.length < limit && page.isEnd && query.wait) {
        await log.gather(gone.signal);
        const left = limit - told.length;
        const more = await log.read({ tenant: of, bucket, prefix, after, limit: left });
        told.push(...(await teller.tell(more.changes)));
        page.altered.push(...more.altered);
        page.isEnd = more.isEnd;
        after = more.through;
      }
      const leftMs = deadlineMs - performance.now();
      if (told.length > 0 || page.altered.length > 0 || leftMs <= 0 || gone.signal.aborted) {
        return pageOf(told, { altered: page.altered, next: String(after), more: !page.isEnd });
      }
      if (!page.isEnd) continue;
      if (!(await log.waitPast(after, leftMs, gone.signal))) gone.abort();
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

/** Tells one page, by the rights of one epoch. */
class Teller {
  readonly #call: Call;
  readonly #access: Pick<Access, 'demand' | 'allows'>;
  readonly #prefix: string;
  /** null: the one bucket that was asked for is enough. */
  readonly #asked: Followed | null;
  /** By name in the tenant; null: the caller may not list it, or it is not there. */
  readonly #followed = new Map<string, Followed | null>();

  private constructor(
    call: Call,
    access: Pick<Access, 'demand' | 'allows'>,
    prefix: string,
    asked: Followed | null,
  ) {
    this.#call = call;
    this.#access = access;
    this.#prefix = prefix;
    this.#asked = asked;
  }

  /** Throws `Refusal` where the bucket that is asked for is not there, or not to be listed. */
  static async begin(call: Call, prefix: string): Promise<Teller> {
    const { deps, query, request, identity } = call;
    const { epoch } = deps.rights;
    const who = await deps.renew(request, identity, Date.now());
    const access = deps.accessOf(request, who);
    const { bucket: askedName } = query;
    const tenant = param(call, 't');
    if (askedName === undefined) {
      call.restOn(epoch, [tenantScope(tenant)]);
      return new Teller(call, access, prefix, null);
    }
    // Names of one's own count in one's own tenant.
    const namer = tenant === who.principal.tenant ? who.principal : { tenant };
    const found = await lookUpBucket(deps, namer, askedName);
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(found.tenant, found.name);
    if (found.at || found.where !== undefined) {
      const message = found.at
        ? `${askedName} shows a bucket as it was: nothing of that changes.`
        : `${askedName} shows what fits a query: follow the bucket itself.`;
      throw new Refusal('InvalidInput', { message, fields: { field: 'query.bucket' } });
    }
    call.restOn(epoch, [tenantScope(found.tenant), bucketScope(found.tenant, found.name)]);
    await access.demand(listing(found, askedName, prefix));
    if (!found.bucket) throw new Refusal('NoSuchBucket');
    const begin = await deps.bucketBeginnings.find(found.bucket);
    return new Teller(call, access, prefix, { found, name: askedName, begin });
  }

  /** The tenant and the bucket whose changes are to be read; undefined: any of the tenant's. */
  get of(): string {
    return this.#asked?.found.tenant ?? param(this.#call, 't');
  }

  get bucket(): string | undefined {
    return this.#asked?.found.name;
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
    return told;
  }

  async #find(name: string): Promise<Followed | null> {
    const { deps } = this.#call;
    const tenant = param(this.#call, 't');
    if (!deps.sealFaults.isEmpty) deps.sealFaults.checkBucket(tenant, name);
    const bucket = await deps.buckets.find(tenant, name);
    const found: NamedBucket = { tenant, name, bucket };
    const asked = this.#nameOf(tenant, name);
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
    return tenant === this.#call.who.tenant ? name : `${tenant}:${name}`;
  }

  #mayRead({ key }: ObjectChange, { found, name }: Followed): boolean | Promise<boolean> {
    return this.#access.allows(readingOf(this.#call.deps, found, { askedName: name, key }));
  }

  #render(change: ObjectChange, name: string): Buffer {
    const { who, deps } = this.#call;
    const tellsWho = mayKnowWho(who, change);
    return eventBytes(change, { region: deps.region, bucket: name, tellsWho });
  }
}
