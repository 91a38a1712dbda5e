// The native API: Bursar's own JSON API under `/_/`. Every call goes the same way: authenticate,
// decide, parse, validate, prepare, commit with its record, answer.
// Invariants: nothing of a request but its path is interpreted before its sender is known; every
// authenticated call, allowed or refused, is recorded before it is answered.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { PackFailure } from '../../audit/archive/pack-failure.ts';
import { AlteredRecord } from '../../audit/record-store.ts';
import type { RequestFacts } from '../../authz/grants/access-request.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { isUnicode } from '../../core/canonical-json.ts';
import {
  type ErrorCode,
  IntegrityError,
  isOutOfDescriptors,
  isUnwritable,
  Refusal,
} from '../../core/errors.ts';
import { nativeBodyBytesMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import { bucketScope, principalScope, type Scope, tenantScope } from '../../ledger/scopes.ts';
import { exchangeOf } from '../http/exchange.ts';
import type { Origin } from '../http/trusted-proxies.ts';
import { addPublicLog } from '../log/public-log.ts';
import { countCall } from '../s3/rate-gate.ts';
import { headersOf } from '../s3/request.ts';
import type { Identity, NativeDeps, NativeEntry } from './deps.ts';
import { addFind } from './find-route.ts';
import { addHealth, addMetrics } from './metrics-routes.ts';
import { enterStage, knowCaller, tellRecord } from './observed-call.ts';
import { describeApi, schemaOf } from './openapi.ts';
import { pathOf, refusalOf, sendProblem } from './problem.ts';
import {
  type Addressed,
  type BucketPart,
  decide,
  mayBeOwners,
  protectOthers,
  type Reach,
} from './rights.ts';
import { type Call, type NativeRoute, type Outcome, statusOf } from './route.ts';
import { routes } from './routes.ts';
import { addWellKnown } from './well-known.ts';

/** What is known of a call from its authentication on. */
interface CallState extends Pick<NativeEntry, 'who' | 'bytesIn' | 'host' | 'concerns'> {
  route: NativeRoute;
  /** `none`: it is not decided yet. */
  reach: Reach;
  decideOn: Call['decideOn'];
  decideAgain: Call['decideAgain'];
  restOn: Call['restOn'];
  /** The rights by which it was decided. */
  decision: Decision;
  /** It decides by itself, whenever its answer is prepared. */
  decidesItself: boolean;
  /** Whether its record is made, or left to the commit of the change. */
  recorded: boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    nativeCall: CallState | null;
  }
}

/**
 * Adds the native API to `app`, which was made with `nativeServerOptions`. It brings its own body
 * parser, error answers and 404 for everything under `/_/`; nothing of these reaches other routes.
 */
export async function registerNativeApi(app: FastifyInstance, deps: NativeDeps): Promise<void> {
  await app.register(async (native) => {
    native.decorateRequest('nativeCall', null);
    native.removeAllContentTypeParsers();
    // The body stays raw until its sender is known; its SHA-256 is part of what is signed.
    const raw = { parseAs: 'buffer', bodyLimit: nativeBodyBytesMax } as const;
    native.addContentTypeParser('*', raw, (_request, body, done) => done(null, body));
    native.setErrorHandler((error, request, reply) => answerError(deps, error, request, reply));
    const description = describeApi(native);
    for (const route of routes) addRoute(native, deps, route);
    addOpenRoutes(native, deps, description);
  });
}

function addRoute(native: FastifyInstance, deps: NativeDeps, route: NativeRoute): void {
  native.route({
    method: route.method,
    url: route.url,
    schema: schemaOf(route),
    preValidation: async (request) => {
      await admit(native, deps, route, request);
    },
    handler: (request, reply) => serve(deps, request, reply),
  });
}

/** Routes without authentication. They tell nothing of tenants. */
function addOpenRoutes(
  native: FastifyInstance,
  deps: NativeDeps,
  description: () => Promise<string>,
): void {
  const hidden = { schema: { hide: true } };
  native.get('/_/v1/openapi.json', hidden, async (_request, reply) =>
    reply.type('application/json').send(await description()),
  );
  addFind(native, deps);
  addHealth(native, deps);
  addMetrics(native, deps);
  addPublicLog(native, deps);
  addWellKnown(native, deps);
  const refuse = async () => {
    throw new Refusal('NotFound');
  };
  native.all('/_', hidden, refuse);
  native.all('/_/*', hidden, refuse);
  native.all('/.well-known/*', hidden, refuse);
}

/** Authenticates, decides, and only then parses the body. */
async function admit(
  native: FastifyInstance,
  deps: NativeDeps,
  route: NativeRoute,
  request: FastifyRequest,
): Promise<void> {
  enterStage(request, 'authenticate');
  const { epoch } = deps.rights;
  const raw = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const begin = (who: Identity): CallState => {
    const bytesIn = raw.length;
    const call: CallState = {
      ...{ route, who, bytesIn, reach: 'none', host: null, concerns: [], recorded: false },
      decidesItself: false,
      decision: { epoch, again: async () => epoch },
      decideOn: async () => {},
      decideAgain: async () => ({ epoch, who }),
      restOn: () => {},
    };
    request.nativeCall = call;
    knowCaller(request, who, raw.length);
    return call;
  };
  const call = begin(await authenticate(deps, request, raw, begin));
  const { who } = call;
  await count(deps, request, who);

  enterStage(request, 'decide');
  const params = request.params as Record<string, string>;
  const addressed = { tenant: params.t, principal: params.p };
  const facts = factsOf(request, who, deps.originOf(request));
  let parts: (BucketPart | undefined)[] = [undefined];
  const decideFor = async (caller: Identity, known = facts): Promise<Reach> => {
    let reach: Reach = 'none';
    for (const part of parts) {
      const { action } = route;
      const owner = mayBeOwners(action) ? await ownerOf(deps, caller, params) : null;
      const asked = { who: caller, action, addressed: { ...addressed, part }, owner, facts: known };
      reach = decide(asked, deps.grants.index);
    }
    call.host = hostOf(caller, addressed);
    if (route.method !== 'GET') await protectOthers(caller.principal, deps.directory, addressed);
    return reach;
  };
  if (!route.ofPart) call.reach = await decideFor(who);
  call.decideOn = async (...wanted) => {
    parts = wanted;
    call.reach = await decideFor(who);
  };
  call.decideAgain = async () => {
    const now = deps.rights.epoch;
    const timeMs = Date.now();
    const caller = await deps.renew(request, who, timeMs);
    call.reach = await decideFor(caller, { ...facts, timeMs });
    return { epoch: now, who: caller };
  };
  const concerns = concernsOf(addressed, params.bucket);
  call.concerns = concerns;
  call.decision = {
    epoch,
    onOutdated: () => {
      call.recorded = false;
    },
    again: async () => {
      const now = deps.rights.epoch;
      const caller = await deps.renew(request, who, facts.timeMs);
      if ((await decideFor(caller)) !== call.reach || !hasSameRights(caller, who)) {
        return refuseOutdated();
      }
      call.recorded = true;
      return now;
    },
  };
  call.restOn = (given, scopes) => {
    call.decidesItself = true;
    call.concerns = [...concerns, ...scopes];
    call.decision = { ...call.decision, epoch: given, again: refuseOutdated };
  };
  request.body = route.body ? parseJson(native, request, raw) : refuseContent(raw);
}

/** What the call has prepared is as things were before. */
class Outdated extends Refusal {
  constructor() {
    super('SlowDown', { message: 'The rights of who asks have changed meanwhile. Try again.' });
  }
}

async function refuseOutdated(): Promise<never> {
  throw new Outdated();
}

/** How often an answer is prepared, before who asks is told to try again. */
const preparedMax = 3;

/** Throws a Refusal; `begin` has been told of the sender where that is known. */
async function authenticate(
  deps: NativeDeps,
  request: FastifyRequest,
  body: Buffer,
  begin: (who: Identity) => void,
): Promise<Identity> {
  try {
    return await deps.authenticate(request, body);
  } catch (error) {
    if (error instanceof RefusedUse) {
      begin(error.who);
      await count(deps, request, error.who);
    }
    throw error;
  }
}

/** Whose the bucket is that a call is about, for who is of its tenant; null: it is not there. */
async function ownerOf(
  { buckets }: NativeDeps,
  { principal }: Identity,
  { t: tenant, bucket }: Record<string, string>,
): Promise<string | null> {
  if (tenant !== principal.tenant || bucket === undefined) return null;
  return (await buckets.find(tenant, bucket))?.owner ?? null;
}

/** The scopes whose changes can take away the right to what the path names. */
function concernsOf({ tenant, principal }: Addressed, bucket: string | undefined): Scope[] {
  if (tenant === undefined) return [];
  const scopes = [tenantScope(tenant)];
  if (bucket !== undefined) scopes.push(bucketScope(tenant, bucket));
  if (principal !== undefined) scopes.push(principalScope(tenant, principal));
  return scopes;
}

function hasSameRights(now: Identity, before: Identity): boolean {
  const { kind, role, membersCreateBuckets } = now.principal;
  const then = before.principal;
  return (
    kind === then.kind &&
    role === then.role &&
    membersCreateBuckets === then.membersCreateBuckets &&
    now.subjects.length === before.subjects.length &&
    now.subjects.every((subject) => before.subjects.includes(subject))
  );
}

/** Administration must be possible whatever was used up, so a call waits and is not refused. */
async function count(deps: NativeDeps, { raw }: FastifyRequest, who: Identity): Promise<void> {
  const response = exchangeOf(raw)?.response;
  if (response) await countCall(deps.rates, who, { waits: true, response });
}

/**
 * The tenant that let the call in: operators are in all tenants, others are in another only by its
 * grants.
 */
function hostOf({ principal }: Identity, { tenant }: Addressed): string | null {
  const isOwn = tenant === undefined || tenant === principal.tenant;
  return isOwn || principal.role === 'operator' ? null : tenant;
}

/** The facts that conditions of grants can ask for. */
function factsOf(
  { raw }: FastifyRequest,
  { authentication }: Identity,
  { source, isSecure }: Origin,
): RequestFacts {
  return {
    ...{ timeMs: Date.now(), sourceAddress: source, isSecure, query: [], authentication },
    ...{
      headers: headersOf(raw),
      versionId: null,
      copySource: null,
      requestTags: noTags,
      objectTags: noTags,
    },
  };
}

const noTags: ReadonlyMap<string, string> = new Map();

function refuseContent(raw: Buffer): undefined {
  if (raw.length > 0) throw new Refusal('UnexpectedContent');
}

/** The JSON of a body; an empty one is an empty object, so that what is missing gets named. */
function parseJson(native: FastifyInstance, request: FastifyRequest, raw: Buffer): unknown {
  if (raw.length === 0) return {};
  const mediaType = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (mediaType !== 'application/json') {
    throw notJson('The body must be JSON, with content-type application/json.');
  }
  let parsed: unknown;
  let failure: unknown = null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(raw);
    // Refuses members that would reach an object's prototype.
    native.getDefaultJsonParser('error', 'error')(request, text, (error, value) => {
      failure = error;
      parsed = value;
    });
    // What is recorded must be the same text to every reader.
    if (!isUnicode(parsed)) failure = new TypeError('half of a surrogate pair');
  } catch (error) {
    failure = error;
  }
  if (failure) throw notJson('The body is not valid JSON.', failure);
  return parsed;
}

function notJson(message: string, cause?: unknown): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field: 'body' }, cause });
}

async function serve(
  deps: NativeDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const state = request.nativeCall;
  if (!state) throw new Error('a native route without authentication');
  const { route } = state;
  if (route.method !== 'GET' && !route.isReading) deps.log.checkWritable();
  const call: Call = {
    who: state.who.principal,
    identity: state.who,
    reach: state.reach,
    decideOn: state.decideOn,
    decideAgain: state.decideAgain,
    restOn: state.restOn,
    origin: deps.originOf(request),
    params: request.params as Call['params'],
    query: request.query as Call['query'],
    body: request.body,
    request,
    sinceMs: performance.now(),
    deps,
  };
  enterStage(request, 'store');
  // A long page takes long, both to make and to write as JSON.
  const pace = new Pace();
  await pace.rest();
  if (route.readsAccounts) await deps.writeAccounts();
  const answer = await prepare(call, state, reply);
  await pace.rest();
  const status = statusOf(route);
  reply.code(status).header('cache-control', 'no-store');
  if (status === 204) return reply.send();
  return reply.type(route.answerType ?? 'application/json').send(answer);
}

/** Runs the call and commits it; again where what its answer rests on was taken away meanwhile. */
async function prepare(call: Call, state: CallState, reply: FastifyReply) {
  const { deps, request } = call;
  for (let times = 1; ; times++) {
    const outcome = await state.route.run(call);
    if (state.reach === 'none') throw new Error('a native route that nobody has decided');
    enterStage(request, 'commit');
    try {
      return await commit(deps, request, state, outcome, reply);
    } catch (error) {
      const isAgain = state.decidesItself && state.route.method === 'GET' && times < preparedMax;
      if (!(error instanceof Outdated && isAgain)) throw error;
      enterStage(request, 'store');
    }
  }
}

async function commit(
  deps: NativeDeps,
  request: FastifyRequest,
  state: CallState,
  outcome: Outcome,
  reply: FastifyReply,
): Promise<object | string | null> {
  const change = 'change' in outcome ? outcome.change : null;
  const entry = { ...entryOf(deps, request, state), status: statusOf(state.route), change };
  if ('change' in outcome && outcome.target !== undefined) entry.target = outcome.target;
  const send = () => {
    state.recorded = true;
    return deps.commit(entry, state.decision);
  };
  const { index, released, untold } = await (change?.kind === 'putGrant'
    ? deps.grants.withRoom(change.tenant, change.grant, send)
    : send());
  tellRecord(request, reply, index);
  if ('findings' in outcome) await deps.commitFindings(entry, outcome.findings);
  // From here on the change counts, whatever becomes of the journals.
  const stores = change && (await untold?.());
  if (stores?.length) reply.header('x-bursar-untold', stores.join(','));
  if (!('change' in outcome)) return outcome.answer;
  return (await outcome.answer?.(released)) ?? null;
}

function entryOf(
  deps: NativeDeps,
  request: FastifyRequest,
  state: CallState,
): Omit<NativeEntry, 'status' | 'change'> {
  return {
    who: state.who,
    requestId: request.id,
    source: deps.originOf(request).source,
    action: state.route.action,
    target: targetOf(request),
    host: state.host,
    concerns: state.concerns,
    bytesIn: state.bytesIn,
    isPolled: state.route.isPolled === true,
  };
}

/** What the call is about: its path inside the API, with what the client's encoding stood for. */
function targetOf(request: FastifyRequest): string {
  return decodeURIComponent(pathOf(request.url)).slice('/_/v1/'.length);
}

/** Records a refusal of a known sender, then answers with a problem document. */
async function answerError(
  deps: NativeDeps,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  let refusal = explain(deps, error, request);
  const state = request.nativeCall;
  if (state && !state.recorded) {
    state.recorded = true;
    try {
      await recordRefusal(deps, request, state, refusal.code, reply);
    } catch (failure) {
      // No answer is given without its record.
      refusal = explain(deps, failure, request);
    }
  }
  return sendProblem(request, reply, refusal);
}

async function recordRefusal(
  deps: NativeDeps,
  request: FastifyRequest,
  state: CallState,
  refused: ErrorCode,
  reply: FastifyReply,
): Promise<void> {
  const status = new Refusal(refused).status;
  const entry = { ...entryOf(deps, request, state), status, change: null, refused };
  enterStage(request, 'commit');
  const { index } = await deps.commit(entry, null);
  tellRecord(request, reply, index);
}

/** A bug is told to the operator's log, and to the client only that there was one. */
function explain(deps: NativeDeps, error: unknown, request: FastifyRequest): Refusal {
  const damage = error instanceof Refusal ? error.cause : error;
  // Whoever finds an altered record has reported it already.
  const isNew = damage instanceof IntegrityError && !(damage instanceof AlteredRecord);
  if (isNew) deps.onIntegrityFailure(damage, request.id);
  const refusal = refusalOf(error);
  if (refusal) return refusal;
  // The client left in the middle of its body.
  if (error === request.raw.errored) return new Refusal('RequestTimeout', { cause: error });
  if (error instanceof PackFailure) return refusalOfPack(error);
  if (error instanceof IntegrityError) return new Refusal('BursarIntegrityError', { cause: error });
  if (isOutOfDescriptors(error) || isUnwritable(error)) {
    return new Refusal('ServiceUnavailable', { cause: error });
  }
  request.log.error({ err: error }, 'native API call failed');
  return new Refusal('InternalError', { cause: error });
}

/** It names the pack and its store, so that the operator learns what has to be put back. */
function refusalOfPack(failure: PackFailure): Refusal {
  const code = failure.kind === 'missing' ? 'PackMissing' : 'BursarIntegrityError';
  const message = `${failure.message[0]?.toUpperCase()}${failure.message.slice(1)}.`;
  return new Refusal(code, { message, cause: failure });
}
