// Binds the native API to the gateway: signatures are checked as those of S3 requests are, and
// commits go to the ledger. Invariant: where an access key signs, the body is trusted only if its
// digest was signed, because what it says (a role, a group) is the whole point of the request.

import { createHash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { RecordDraft } from '../../audit/record.ts';
import { draftRecord, type RecordOrigin, unasked } from '../../audit/record-draft.ts';
import { ShownRecords } from '../../audit/shown-records.ts';
import type { Authenticator } from '../../authz/authenticate.ts';
import { bearerType } from '../../authz/bearer.ts';
import type { Identity as Authenticated } from '../../authz/identity.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { Refusal } from '../../core/errors.ts';
import type { EvidenceJwk, SignedEvidence, SignedPart } from '../../core/evidence.ts';
import type { Limits } from '../../core/quota-terms.ts';
import type { Change } from '../../ledger/commands/index.ts';
import { accountOf } from '../../ledger/commands/index.ts';
import type { Released } from '../../ledger/commit.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { BucketBeginnings } from '../changes/bucket-beginnings.ts';
import { DataVerifier, type Finding } from '../data-verifier.ts';
import { type Exchange, exchangeOf } from '../http/exchange.ts';
import { Access } from '../s3/access.ts';
import { LimitAudience, quotaExceeded } from '../s3/limit-refusals.ts';
import { provenBy } from '../s3/proven-record.ts';
import type { RecordFolding } from '../s3/record-folding.ts';
import { type Begun, parseRequest } from '../s3/request.ts';
import { actorOf } from '../s3/request-record.ts';
import type { Services } from '../services.ts';
import { conflictWords } from './conflict-words.ts';
import type { NativeDeps, NativeEntry } from './deps.ts';

/** What the gateway adds to its services, for the native API. */
export interface NativeParts
  extends Pick<NativeDeps, 'health' | 'onIntegrityFailure' | 'serveFind' | 'tokenKeys'> {
  authenticator: Authenticator;
}

/** Makes what `registerNativeApi` needs of all services. */
export function nativeDepsOf(services: Services, parts: NativeParts): NativeDeps {
  const { authenticator, ...given } = parts;
  const { ledger, folding, journals, stores } = services;
  const { records, altered, metrics } = services;
  const storeNames = (numbers: number[]) =>
    stores.all().flatMap(({ number, name }) => (numbers.includes(number) ? [name] : []));
  return {
    ...services,
    ...given,
    bucketBeginnings: new BucketBeginnings(services.search),
    verifier: new DataVerifier(services),
    records: new ShownRecords(records, altered.found),
    metrics: metrics.registry,
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
    accessOf: (request, who) => new Access(services, signedPartOf(request), who as Authenticated),
    rights: ledger.rights,
    work: (what) => ledger.maintain(what),
    writeAccounts: () => ledger.writeAccounts(),
    commit: async (entry, decision) => {
      const how = { decision, folds: isFolded(folding, entry) };
      const committed = await commitEntry(ledger, entry, how);
      const { index } = committed;
      const untold = async () =>
        storeNames(await journals.confirmEverywhere(entry.change ?? noChange, index));
      return { ...committed, untold };
    },
    commitFindings: async (entry, all) => {
      // What is lost has its own record.
      const findings = all.filter(({ isLost }) => !isLost);
      for (const { error } of findings) given.onIntegrityFailure(error, entry.requestId);
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
  // A token signs nothing, and what its proof covers was checked with the proof.
  if (body.length === 0 || authentication?.type === bearerType) return;
  throw new RefusedUse(who, 'InvalidRequest', {
    message: 'The body must be signed: x-amz-content-sha256 must be its SHA-256.',
  });
}

/** Only a refused call, and one that only reads, have changed nothing for sure. */
function isFolded(folding: RecordFolding, { who, refused, isPolled }: NativeEntry): boolean {
  const { id, tenant } = who.principal;
  return (refused !== undefined || isPolled === true) && folding.mustFold(id, tenant);
}

async function commitEntry(
  ledger: Ledger,
  entry: NativeEntry,
  { decision, folds }: { decision: Decision | null; folds: boolean },
): Promise<{ index: number | null; released?: Released }> {
  const { concerns } = entry;
  const proven = provenBy(signedOf(entry), draftOf(entry));
  const commit = { change: entry.change ?? noChange, charge: null, folds, concerns, ...proven };
  const result = await (decision
    ? ledger.rights.commit((one) => ledger.commit(one), commit, decision)
    : ledger.commit(commit));
  if (result.ok) {
    const { index, released } = result;
    return released ? { index, released } : { index };
  }
  if (result.shortage) {
    throw quotaExceeded(result.shortage, new LimitAudience(entry.who, null, null));
  }
  const { message = conflictWords(result.code, entry.change), ...fields } = result.fields ?? {};
  throw new Refusal(result.code, message === undefined ? { fields } : { message, fields });
}

const noChange: Change = { kind: 'none' };

/**
 * What was signed for the call. The proof of an enrolled key is a signature by that key, whoever
 * asks for the enrolment.
 */
function signedOf({ who: { signed }, change }: NativeEntry): SignedEvidence | undefined {
  if (change?.kind !== 'createPublicKey') return signed;
  const { jwk, thumbprint, proof } = change;
  const dot = proof.lastIndexOf('.');
  const part: SignedPart = {
    ...{ kind: 'key-proof', jwk: JSON.parse(jwk) as EvidenceJwk, thumbprint },
    ...{ signed: proof.slice(0, dot), signature: proof.slice(dot + 1) },
  };
  const { parts = [], replayableUntilMs = null } = signed ?? {};
  return { parts: [part, ...parts], replayableUntilMs };
}

function draftOf(entry: NativeEntry): RecordDraft {
  return draftRecord(actorOf(entry.who), originOf(entry), {
    action: entry.action,
    bucketTenant: otherTenantOf(entry),
    target: entry.target,
    change: entry.change && accountOf(entry.change),
    limits: limitsOf(entry),
    bytesIn: entry.bytesIn,
    status: entry.status,
    error: entry.refused ?? null,
  });
}

function originOf({ requestId: id, source }: NativeEntry): RecordOrigin {
  return { id, source };
}

/**
 * The other tenant whose auditors are to see the record: the one whose grants let the caller in, or
 * whose records an operator erased.
 */
function otherTenantOf({ change, who, host }: NativeEntry): string | null {
  if (change?.kind !== 'eraseRecords') return host;
  return change.tenant === who.principal.tenant ? null : change.tenant;
}

/** The limits that the call sets, which may be used from then on. */
function limitsOf({ change }: NativeEntry): Limits | null {
  if (change?.kind === 'setLimits') return change.limits;
  return (change?.kind === 'addToken' && change.details.limits) || null;
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
    record: draftRecord(unasked(tenant, owner), originOf(entry), {
      action: 'bursar:IntegrityFailure',
      bucket: name,
      key: place.key,
      target: isPart ? `uploads/${place.uploadId}/parts/${place.number}` : `versions/${place.seq}`,
      status: 500,
      error: 'BursarIntegrityError',
    }),
  });
  if (!result.ok) throw new Refusal(result.code);
}
