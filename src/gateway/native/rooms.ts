// The native API on the gateway's real rooms: signatures are checked as those of S3 requests are,
// and commits go to the ledger. Invariant: where an access key signs, the body is trusted only if its
// digest was signed, because what it says (a role, a group) is the whole point of the request.
import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { RecordDraft } from '../../audit/record.ts';
import type { Authenticator } from '../../authz/authenticate.ts';
import { bearerType } from '../../authz/bearer.ts';
import type { Identity as Authenticated } from '../../authz/identity.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { Refusal } from '../../core/errors.ts';
import type { EvidenceJwk, SignedEvidence, SignedPart } from '../../core/evidence.ts';
import type { Limits } from '../../core/quota-terms.ts';
import type { Change } from '../../ledger/commit.ts';
import type { Journals } from '../../ledger/journal/journals.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Finding } from '../data-verifier.ts';
import { type Exchange, exchangeOf } from '../exchange.ts';
import { provenBy } from '../proven-record.ts';
import type { RecordFolding } from '../record-folding.ts';
import { type Begun, parseRequest } from '../request.ts';
import { accountOf } from './change-account.ts';
import type { NativeDeps, NativeEntry } from './deps.ts';

export interface NativeRooms
  extends Omit<
    NativeDeps,
    | 'authenticate'
    | 'renew'
    | 'rights'
    | 'isAdministration'
    | 'originOf'
    | 'commit'
    | 'commitFindings'
  > {
  ledger: Ledger;
  authenticator: Authenticator;
  folding: RecordFolding;
  /** Of S3 stores, which are told of changes of identities. */
  journals: Pick<Journals, 'confirmEverywhere'>;
}

/** What `registerNativeApi` needs, from the rooms. */
export function nativeDepsOf(rooms: NativeRooms): NativeDeps {
  const { ledger, authenticator, folding, journals, ...rest } = rooms;
  const storeNames = (numbers: number[]) =>
    rest.stores.all().flatMap(({ number, name }) => (numbers.includes(number) ? [name] : []));
  return {
    ...rest,
    isAdministration: ({ raw }) => exchangeOf(raw)?.door === 'administration',
    originOf: (request) => begunOf(request),
    authenticate: async (request, body) => {
      const who = await authenticator.authenticate(signedPartOf(request));
      if (who === null) throw new Refusal('AccessDenied');
      checkBody(who, body);
      return who;
    },
    renew: (request, who, atMs) =>
      authenticator.renew(signedPartOf(request), who as Authenticated, atMs),
    rights: ledger.rights,
    commit: async (entry, decision) => {
      const how = { decision, folds: isFolded(folding, entry) };
      const committed = await commitEntry(ledger, entry, how);
      const { index } = committed;
      const untold = async () =>
        storeNames(await journals.confirmEverywhere(changeOf(entry), index));
      return { ...committed, untold };
    },
    commitFindings: async (entry, findings) => {
      for (const { error } of findings) rest.onIntegrityFailure(error, entry.requestId);
      await Promise.all(findings.map((finding) => commitFinding(ledger, entry, finding)));
    },
  };
}

function signedPartOf(request: FastifyRequest) {
  // No domain: native paths are never split into bucket and key by the host.
  return parseRequest(request.raw, begunOf(request), []);
}

function begunOf({ raw }: FastifyRequest): Begun {
  return exchangeOf(raw) as Exchange;
}

/** Throws `XAmzContentSHA256Mismatch` or, for a body that is not covered, `InvalidRequest`. */
function checkBody(who: Authenticated, body: Buffer): void {
  const { payload, authentication } = who;
  if (payload.kind === 'sha256') {
    const digest = createHash('sha256').update(body).digest();
    if (!digest.equals(payload.sha256)) throw new RefusedUse(who, 'XAmzContentSHA256Mismatch');
    return;
  }
  // Who bears a token signs nothing, or what its proof covers: that was checked with the proof.
  if (body.length === 0 || authentication?.type === bearerType) return;
  throw new RefusedUse(who, 'InvalidRequest', {
    message: 'The body must be signed: x-amz-content-sha256 must be its SHA-256.',
  });
}

/** Only what was refused changed nothing for sure. */
function isFolded(folding: RecordFolding, { who, refused }: NativeEntry): boolean {
  const { id, tenant } = who.principal;
  return refused !== undefined && folding.mustFold(id, tenant);
}

async function commitEntry(
  ledger: Ledger,
  entry: NativeEntry,
  { decision, folds }: { decision: Decision | null; folds: boolean },
): Promise<{ index: number | null; epoch?: number | undefined }> {
  const { concerns } = entry;
  const proven = provenBy(signedOf(entry), draftOf(entry));
  const commit = { change: changeOf(entry), charge: null, folds, concerns, ...proven };
  const result = await (decision
    ? ledger.rights.commit((one) => ledger.commit(one), commit, decision)
    : ledger.commit(commit));
  if (result.ok) return { index: result.index, epoch: result.epoch };
  const { message, ...fields } = result.fields ?? {};
  throw new Refusal(result.code, message === undefined ? { fields } : { message, fields });
}

/** Who enrols a key has signed that with it, whoever asks for it. */
function signedOf({ who: { signed }, change }: NativeEntry): SignedEvidence | undefined {
  if (change?.type !== 'createPublicKey') return signed;
  const { jwk, thumbprint, proof } = change;
  const dot = proof.lastIndexOf('.');
  const part: SignedPart = {
    ...{ kind: 'key-proof', jwk: JSON.parse(jwk) as EvidenceJwk, thumbprint },
    ...{ signed: proof.slice(0, dot), signature: proof.slice(dot + 1) },
  };
  const { parts = [], replayableUntilMs = null } = signed ?? {};
  return { parts: [part, ...parts], replayableUntilMs };
}

function changeOf({ change }: NativeEntry): Change {
  if (!change) return { kind: 'none' };
  switch (change.type) {
    case 'addRootKey':
      return { kind: 'addRootKey', key: change.key };
    case 'rotateLogKey':
      return { kind: 'rotateLogKey', key: change.key, retireMs: change.retireMs };
    case 'revokeLogKey':
      return { kind: 'revokeLogKey', id: change.id };
    case 'confirmClock':
      return { kind: 'confirmClock' };
    case 'eraseRecords':
      return { kind: 'eraseRecords', tenant: change.tenant, indexes: change.indexes };
    case 'setLimits':
      return { ...change, kind: 'setLimits' };
    case 'setAlarmHook':
      return { ...change, kind: 'setAlarmHook' };
    case 'setRecordReads':
      return { ...change, kind: 'setRecordReads' };
    case 'forgetLost':
      return { kind: 'forgetLost', account: change.account };
    default:
      return { kind: 'identity', identity: change };
  }
}

function draftOf(entry: NativeEntry): RecordDraft {
  const { principal, accessKeyId, keyThumbprint, delegation, evidence } = entry.who;
  return {
    action: entry.action,
    tenant: principal.tenant,
    principal: principal.name,
    accessKeyId,
    keyThumbprint,
    tokens: delegation?.ids ?? null,
    evidence,
    bucketTenant: otherTenantOf(entry),
    target: entry.target,
    change: entry.change && accountOf(entry.change),
    limits: limitsOf(entry),
    bytesIn: entry.bytesIn,
    bytesOut: 0,
    requestId: entry.requestId,
    source: entry.source,
    status: entry.status,
    error: entry.refused ?? null,
  };
}

/**
 * Whose auditors are to see it besides: those of the tenant whose grants let the caller in, or whose
 * records an operator erased.
 */
function otherTenantOf({ change, who, host }: NativeEntry): string | null {
  if (change?.type !== 'eraseRecords') return host;
  return change.tenant === who.principal.tenant ? null : change.tenant;
}

/** What is set by it may be used from then on. */
function limitsOf({ change }: NativeEntry): Limits | null {
  if (change?.type === 'setLimits') return change.limits;
  return (change?.type === 'addToken' && change.details.limits) || null;
}

/**
 * Nobody asked for a finding's bytes, so its record names no access key; it is in the name of the
 * bucket's owner, whose tenant's admins are to see it.
 */
async function commitFinding(
  ledger: Ledger,
  entry: NativeEntry,
  { bucket, place }: Finding,
): Promise<void> {
  const { tenant, owner, name } = bucket;
  const isPart = 'uploadId' in place;
  const result = await ledger.commit({
    change: { kind: 'none' },
    charge: null,
    record: {
      action: 'bursar:IntegrityFailure',
      tenant,
      principal: owner,
      evidence: 'none',
      bucket: name,
      key: place.key,
      target: isPart ? `uploads/${place.uploadId}/parts/${place.number}` : `versions/${place.seq}`,
      bytesIn: 0,
      bytesOut: 0,
      requestId: entry.requestId,
      source: entry.source,
      status: 500,
      error: 'BursarIntegrityError',
    },
  });
  if (!result.ok) throw new Refusal(result.code);
}
