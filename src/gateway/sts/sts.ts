// STS: a token of this gateway, or of an outside issuer, is traded for temporary access keys, so
// that S3 clients need to know nothing of tokens. Invariants: each trade is recorded before it is
// answered; a token that is bound to a key is traded only with its proof on this very request, form
// included, but with DPoP, which covers no body.
// Specification: "AssumeRoleWithWebIdentity" and "Common errors" of the AWS STS API reference.

import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator, Identity } from '../../authz/authenticate.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { proofRefusal } from '../../authz/tokens/faults.ts';
import { isoTime } from '../../core/clock.ts';
import { type ErrorCode, Refusal } from '../../core/errors.ts';
import type { Commit } from '../../ledger/commit.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Rates } from '../../quota/rates.ts';
import type { Sessions, TemporaryKeys } from '../../state/sessions.ts';
import type { Exchange } from '../http/exchange.ts';
import { type DescribeRefusal, sendRefusal } from '../http/reply.ts';
import { renderErrorXml, renderXml, type XmlElements } from '../http/xml.ts';
import { ClientGone, consume } from '../s3/body.ts';
import { provenBy } from '../s3/proven-record.ts';
import { countCall } from '../s3/rate-gate.ts';
import type { RecordFolding } from '../s3/record-folding.ts';
import { parseRequest, type S3Request } from '../s3/request.ts';
import { type Form, type KeysRequest, openForm } from './sts-form.ts';

export interface Sts {
  authenticator: Authenticator;
  sessions: Sessions;
  ledger: Ledger;
  rates: Rates;
  folding: RecordFolding;
  /** Told of each bug, with the request's id. */
  onBug: (error: unknown, requestId: string) => void;
}

/** A token of 16 KiB and a policy of 2,048 characters, percent-encoded, and the rest. */
const formBytesMax = 64 * 1024;
const namespace = 'https://sts.amazonaws.com/doc/2011-06-15/';

/** Is it a form that is posted to no path, where S3 has nothing? */
export function isStsForm(raw: IncomingMessage): boolean {
  if (raw.method !== 'POST' || raw.url !== '/') return false;
  const [mediaType = ''] = (raw.headers['content-type'] ?? '').split(';', 1);
  return mediaType.trim().toLowerCase() === 'application/x-www-form-urlencoded';
}

/** Answers one request. Never rejects. */
export async function serveSts(sts: Sts, exchange: Exchange): Promise<void> {
  const { raw, response, clock } = exchange;
  exchange.operation = 'AssumeRoleWithWebIdentity';
  const { epoch } = sts.ledger.rights;
  const atMs = Date.now();
  try {
    const request = parseRequest(raw, exchange, []);
    const body = await clock.during('stream', receiveForm(request, response));
    exchange.bytesIn = body.length;
    const form = openForm(body);
    const { issuersAsOf } = sts.sessions;
    clock.enter('authenticate');
    const { who, refused } = await identify(sts, request, form, body);
    exchange.know(who);
    clock.enter('decide');
    const again = async () => {
      const now = sts.ledger.rights.epoch;
      await sts.authenticator.renewToken(request, who, { token: form.readToken(), atMs });
      return now;
    };
    const decision = { epoch, again };
    const given = { request, who, issuersAsOf, bytesIn: body.length, exchange, decision };
    const document = await trade(sts, given, form, refused);
    clock.enter('firstByte');
    const sizeBytes = Buffer.byteLength(document);
    exchange.writeHead(200, {
      'content-type': 'text/xml',
      'content-length': String(sizeBytes),
      'cache-control': 'no-store',
    });
    response.end(document);
    exchange.bytesOut = sizeBytes;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal.code === 'InternalError') sts.onBug(error, exchange.id);
    await sendRefusal(exchange, refusal, describeInStsXml);
  } finally {
    exchange.end();
  }
}

async function receiveForm(request: S3Request, response: ServerResponse): Promise<Buffer> {
  if (request.expectsContinue) response.writeContinue();
  const pieces: Buffer[] = [];
  let bytes = 0;
  await consume(request.raw, (piece) => {
    bytes += piece.length;
    if (bytes > formBytesMax) {
      const message = `The form has more than ${formBytesMax} bytes.`;
      throw new Refusal('ValidationError', { message });
    }
    pieces.push(piece);
    return null;
  });
  return Buffer.concat(pieces);
}

const authorizationForm = /^(Bearer|DPoP) +(\S+)$/i;

/** Who bears the form's token. Throws a Refusal where nobody does. */
async function identify(
  sts: Sts,
  request: S3Request,
  form: Form,
  body: Buffer,
): Promise<{ who: Identity; refused: Refusal | null }> {
  try {
    return { who: await authenticate(sts, request, form.readToken(), body), refused: null };
  } catch (error) {
    if (error instanceof RefusedUse) return { who: error.who, refused: error };
    throw error;
  }
}

/** A proof of the token's key is beside it, as in any other request. */
async function authenticate(
  { authenticator }: Sts,
  request: S3Request,
  token: string,
  body: Buffer,
): Promise<Identity> {
  const { authorization } = request.headers;
  const [, scheme = 'Bearer', header] = authorizationForm.exec(authorization ?? '') ?? [];
  if (authorization !== undefined && header !== token) {
    const message = 'The Authorization header has another token than the form.';
    throw new Refusal('ValidationError', { message });
  }
  const who = await authenticator.authenticateToken(request, scheme, token);
  const { payload } = who;
  if (payload.kind === 'sha256') {
    const digest = createHash('sha256').update(body).digest();
    if (!digest.equals(payload.sha256)) {
      const { code, message, fields } = proofRefusal('Digest', 'is for another body');
      throw new RefusedUse(who, code, { message, fields });
    }
  }
  return who;
}

interface Trade {
  exchange: Exchange;
  request: S3Request;
  who: Identity;
  issuersAsOf: number;
  bytesIn: number;
  decision: Decision;
}

/** Gives the keys' document. Throws `Refusal`, which is recorded. */
async function trade(sts: Sts, trade: Trade, form: Form, refused: Refusal | null): Promise<string> {
  let asked: KeysRequest;
  let keys: TemporaryKeys;
  try {
    const { response } = trade.exchange;
    await countCall(sts.rates, trade.who, { waits: true, response });
    if (refused) throw refused;
    asked = form.read();
    keys = await issue(sts, trade, asked);
  } catch (error) {
    await record(sts, trade, { refusal: refusalOf(error), target: null });
    throw error;
  }
  const target = `temporary-keys/${keys.accessKeyId}/${asked.sessionName}`;
  try {
    await record(sts, trade, { refusal: null, target });
  } catch (error) {
    // The token was taken back before its keys were recorded: nobody has them.
    if (trade.exchange.index === null) {
      await record(sts, trade, { refusal: refusalOf(error), target: null });
    }
    throw error;
  }
  return renderKeys(keys, trade.who, asked, trade.request.id);
}

async function issue(
  { sessions }: Sts,
  { who, issuersAsOf }: Trade,
  asked: KeysRequest,
): Promise<TemporaryKeys> {
  const { delegation, principal } = who;
  if (!delegation) throw new Error('a token without delegation');
  if (asked.tenant !== principal.tenant) {
    const message = "The account in RoleArn must be the tenant of the token's principal.";
    throw new Refusal('AccessDenied', { message });
  }
  const { policy, durationMs } = asked;
  const nowMs = Date.now();
  return sessions.issue({ actor: who, delegation, policy, issuersAsOf, nowMs, durationMs });
}

async function record(
  { ledger, folding }: Sts,
  { exchange, request, who, bytesIn, decision }: Trade,
  { refusal, target }: { refusal: Refusal | null; target: string | null },
): Promise<void> {
  const { principal, keyThumbprint, delegation, evidence, signed } = who;
  exchange.clock.enter('commit');
  const commit: Commit = {
    change: { kind: 'none' },
    charge: null,
    folds: refusal !== null && folding.mustFold(principal.id, principal.tenant),
    ...provenBy(signed, {
      action: 'sts:AssumeRoleWithWebIdentity',
      tenant: principal.tenant,
      principal: principal.name,
      keyThumbprint,
      tokens: delegation?.ids ?? null,
      evidence,
      target,
      bytesIn,
      bytesOut: 0,
      requestId: request.id,
      source: request.source,
      status: refusal?.status ?? 200,
      error: refusal?.code ?? null,
    }),
  };
  const result = await (refusal
    ? ledger.commit(commit)
    : ledger.rights.commit((one) => ledger.commit(one), commit, decision));
  if (!result.ok) throw new Refusal(result.code);
  exchange.index = result.index;
}

function renderKeys(
  keys: TemporaryKeys,
  { principal }: Identity,
  asked: KeysRequest,
  requestId: string,
): string {
  const { tenant, id } = principal;
  const { roleName, sessionName } = asked;
  const claims = claimsOf(asked.token);
  return renderXml(
    'AssumeRoleWithWebIdentityResponse',
    {
      AssumeRoleWithWebIdentityResult: {
        Audience: [claims.aud].flat().join(' '),
        AssumedRoleUser: {
          AssumedRoleId: `${id}:${sessionName}`,
          Arn: `arn:aws:sts::${tenant}:assumed-role/${roleName}/${sessionName}`,
        },
        Provider: String(claims.iss),
        Credentials: {
          AccessKeyId: keys.accessKeyId,
          SecretAccessKey: keys.secretAccessKey,
          SessionToken: keys.sessionToken,
          // Whole seconds, never later than it is.
          Expiration: isoTime(keys.expiresAtMs).replace(/\.\d+Z$/, 'Z'),
        },
        SubjectFromWebIdentityToken: String(claims.sub),
      },
      ResponseMetadata: { RequestId: requestId },
    },
    namespace,
  );
}

/** What the token, which was verified, says of itself. */
function claimsOf(token: string): Record<string, unknown> {
  const [, payload = ''] = (token.split('~', 1)[0] as string).split('.', 2);
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
}

// Refusals -------------------------------------------------------------------------------------

/** What is called otherwise here, by names that SDKs know. */
function codeOf({ code, fields }: Refusal): ErrorCode {
  switch (code) {
    case 'InvalidBearerToken':
      // This alone SDKs try again.
      return fields.Reason === 'IssuerKeys' ? 'IDPCommunicationError' : 'InvalidIdentityToken';
    case 'ExpiredBearerToken':
    case 'ExpiredToken':
      return 'ExpiredTokenException';
    default:
      return code;
  }
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof ClientGone) return new Refusal('RequestTimeout', { cause: error });
  if (!(error instanceof Refusal)) return new Refusal('InternalError', { cause: error });
  return new Refusal(codeOf(error), { message: error.message, cause: error });
}

export const describeInStsXml: DescribeRefusal = (refusal, { id }) => {
  const error: XmlElements = {
    Type: refusal.status < 500 ? 'Sender' : 'Receiver',
    Code: refusal.code,
    Message: refusal.message,
  };
  const text = renderErrorXml({ Error: error, RequestId: id }, 'ErrorResponse', namespace);
  return { headers: { 'content-type': 'text/xml' }, text };
};
