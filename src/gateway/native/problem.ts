// Native API errors: problem details (RFC 9457), one shape for every refusal, whoever found it.
// Invariant: a bug's message never leaves; only refusals, which are written for clients, do.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { messageOf, Refusal } from '../../core/errors.ts';
import { classNameForm, classNameWords, nameForm, nameWords, notAName } from '../../core/names.ts';
import { challengeOf } from '../http/challenge.ts';
import { echoed } from '../http/echo.ts';
import { exchangeOf } from '../http/exchange.ts';
import type { DescribeRefusal } from '../http/reply.ts';
import { missingWords } from './missing-words.ts';
import { text } from './schemas.ts';

/** The refusal that an error means; undefined for a bug. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  const { validation, validationContext, code } = error as Partial<FastifyError>;
  const [violation] = validation ?? [];
  if (violation) return invalidInput(violation, validationContext ?? 'request', error);
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new Refusal('MaxMessageLengthExceeded', { cause: error });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new Refusal('IncompleteBody', { cause: error });
    default:
      return undefined;
  }
}

/** Answers with a problem document. */
export function sendProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: Refusal,
): FastifyReply {
  const message = missingWords(refusal, request.params) ?? refusal.message;
  const exchange = exchangeOf(request.raw);
  if (exchange) {
    exchange.error ??= refusal.code;
    exchange.message ??= message;
  }
  const challenge = challengeOf(refusal);
  if (challenge !== undefined) reply.header('www-authenticate', challenge);
  if (refusal.status === 503) reply.header('retry-after', refusal.fields.RetryAfter ?? '1');
  return reply
    .code(refusal.status)
    .header('cache-control', 'no-store')
    .type(mediaType)
    .send(renderProblem(refusal, message, request.id, request.url));
}

/** The same outside of Fastify. */
export const describeInProblem: DescribeRefusal = (refusal, { raw, id }) => ({
  headers: { 'cache-control': 'no-store', 'content-type': mediaType },
  text: renderProblem(refusal, refusal.message, id, raw.url ?? ''),
});

const mediaType = 'application/problem+json';

function renderProblem(refusal: Refusal, message: string, requestId: string, url: string): string {
  const { field } = refusal.fields;
  return JSON.stringify({
    type: `urn:bursar:error:${refusal.code}`,
    title: messageOf(refusal.code),
    status: refusal.status,
    detail: echoed(message),
    code: refusal.code,
    ...(field === undefined ? {} : { field: echoed(field) }),
    requestId,
    instance: echoed(pathOf(url)),
  });
}

/** The path of a request target, without its query. */
export function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/** The JSON schema of a problem, for the API's description. */
export const problemSchema = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code', 'requestId', 'instance'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    field: text('What of the request does not fit: `body.name`.'),
    requestId: { type: 'string' },
    instance: { type: 'string' },
  },
} as const;

/** `data`: what does not fit. */
type Violation = NonNullable<FastifyError['validation']>[number] & { data?: unknown };

/** Names the member that does not fit, as `body.groups.0` or `querystring.limit`. */
function invalidInput(violation: Violation, context: string, cause: unknown): Refusal {
  const { keyword, instancePath, params, message, data } = violation;
  const at = context + instancePath.replaceAll('/', '.');
  if (keyword === 'additionalProperties') {
    const field = `${at}.${String(params.additionalProperty)}`;
    return refuseField(field, `${field} is not known here`, cause);
  }
  if (keyword === 'required') {
    const field = `${at}.${String(params.missingProperty)}`;
    return refuseField(field, `${field} is missing`, cause);
  }
  if (keyword === 'enum') {
    const allowed = (params.allowedValues as unknown[]).join(', ');
    return refuseField(at, `${at} must be one of: ${allowed}`, cause);
  }
  const words = keyword === 'pattern' && wordsOfNames.get(params.pattern);
  if (words) return refuseField(at, `${at}: ${notAName(data, words)}`, cause);
  if (keyword === 'minProperties') {
    return refuseField(at, `${at} must have at least one member`, cause);
  }
  return refuseField(at, `${at} ${message ?? 'does not fit'}`, cause);
}

const wordsOfNames: ReadonlyMap<unknown, string> = new Map([
  [nameForm.source, nameWords],
  [classNameForm.source, classNameWords],
]);

function refuseField(field: string, message: string, cause: unknown): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field }, cause });
}
