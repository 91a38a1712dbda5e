// STS: a token of this gateway, or of an outside issuer, is traded for temporary access keys, so
// that S3 clients need to know nothing of tokens. Invariants: each trade is recorded before it is
// answered; a token that is bound to a key is traded only with its proof on this very request, form
// included, but with DPoP, which covers no body.
// Specification: "AssumeRoleWithWebIdentity" and "Common errors" of the AWS STS API reference.
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator, Identity } from '../../authz/authenticate.ts';
import { sessionPolicyLengthMax } from '../../authz/grants/bounds.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { tokenBytesMax } from '../../authz/tokens/bounds.ts';
import { proofRefusal } from '../../authz/tokens/faults.ts';
import { isoTime } from '../../core/clock.ts';
import { type ErrorCode, Refusal } from '../../core/errors.ts';
import { namePart } from '../../core/names.ts';
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

interface Sts {
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

// The form that asks for temporary keys, read strictly. Invariant: a parameter that is not known is
// refused, because it may have been a restriction (as `PolicyArns` is); and one that is given twice
// has no reading at all.
// Specification: "AssumeRoleWithWebIdentity" of the AWS STS API reference; the URL standard,
// section "application/x-www-form-urlencoded".

interface KeysRequest {
  /** Of the role's ARN. There are no roles: its tenant must be the token's, its name is free. */
  tenant: string;
  roleName: string;
  sessionName: string;
  token: string;
  /** A session policy's text; null: there is none. */
  policy: string | null;
  durationMs: number;
}

const parameterNames = [
  ...['Action', 'Version', 'RoleArn', 'RoleSessionName', 'WebIdentityToken'],
  ...['Policy', 'DurationSeconds'],
];
const pairsMax = 32;

/** Read in two steps, so that it is known whose form it is before the rest of it can be refused. */
interface Form {
  /** The token, which is not verified. Throws `Refusal` InvalidAction or ValidationError. */
  readToken(): string;
  /** Throws the same. */
  read(): KeysRequest;
}

/** Throws `Refusal` ValidationError for what is no form. */
export function openForm(body: Buffer): Form {
  const form = parseForm(body.toString('latin1'));
  const token = form.get('WebIdentityToken');
  return {
    // Without one it may be another action's.
    readToken: () => (token === undefined ? readForm(form).token : readToken(token)),
    read: () => readForm(form),
  };
}

function readForm(form: ReadonlyMap<string, string>): KeysRequest {
  const { Action: action, Version: version, Policy: policy = null } = Object.fromEntries(form);
  if (action !== 'AssumeRoleWithWebIdentity' || version !== '2011-06-15') {
    const message = 'Only AssumeRoleWithWebIdentity of version 2011-06-15 is supported.';
    throw new Refusal('InvalidAction', { message });
  }
  for (const name of form.keys()) {
    if (!parameterNames.includes(name)) {
      throw invalid(`The parameter ${JSON.stringify(name.slice(0, 80))} is not supported`);
    }
  }
  if (policy !== null && policy.length > sessionPolicyLengthMax) {
    throw invalid(`Policy has more than ${sessionPolicyLengthMax} characters`);
  }
  return {
    ...readRole(form.get('RoleArn')),
    sessionName: readSessionName(form.get('RoleSessionName')),
    token: readToken(form.get('WebIdentityToken')),
    policy,
    durationMs: readDurationMs(form.get('DurationSeconds')),
  };
}

function invalid(what: string): Refusal {
  return new Refusal('ValidationError', { message: `${what}.` });
}

function parseForm(text: string): Map<string, string> {
  const form = new Map<string, string>();
  const pairs = text.split('&', pairsMax + 1).filter((pair) => pair !== '');
  if (pairs.length > pairsMax) throw invalid('There are too many parameters');
  for (const pair of pairs) {
    const [name = '', ...value] = pair.split('=');
    const decoded = decode(name);
    if (form.has(decoded)) throw invalid(`The parameter ${decoded.slice(0, 80)} is given twice`);
    form.set(decoded, decode(value.join('=')));
  }
  return form;
}

function decode(text: string): string {
  if (!/^[\x21-\x7e]*$/.test(text)) throw invalid('The body is not URL-encoded');
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw invalid('The body is not URL-encoded');
  }
}

const roleForm = new RegExp(`^arn:aws:iam::(${namePart}):role/([\\w+=,.@/-]{1,512})$`);

function readRole(arn = ''): Pick<KeysRequest, 'tenant' | 'roleName'> {
  const [, tenant, roleName] = roleForm.exec(arn) ?? [];
  if (tenant !== undefined && roleName !== undefined) return { tenant, roleName };
  throw invalid('RoleArn must be arn:aws:iam::TENANT:role/NAME');
}

function readSessionName(name = ''): string {
  if (/^[\w+=,.@-]{2,64}$/.test(name)) return name;
  throw invalid('RoleSessionName must have 2 to 64 letters, digits or _+=,.@-');
}

function readToken(text = ''): string {
  // SDKs send a token file as it is, with the line end that editors and shells leave there.
  const token = text.trim();
  if (token !== '' && token.length <= tokenBytesMax) return token;
  throw invalid(`WebIdentityToken must have 1 to ${tokenBytesMax} characters`);
}

const durationSecondsMin = 900;
const durationSecondsMax = 12 * 3600;

function readDurationMs(text = '3600'): number {
  const seconds = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (seconds >= durationSecondsMin && seconds <= durationSecondsMax) return seconds * 1000;
  throw invalid(`DurationSeconds must be ${durationSecondsMin} to ${durationSecondsMax}`);
}
