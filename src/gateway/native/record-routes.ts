// Native API: the audit records. Invariants: a filter only ever narrows what the caller may see, so
// another tenant's name in it finds nothing; and records leave verbatim, as they were hashed, or
// marked as altered.
import type { Call, NativeRoute } from './route.ts';
import { answerPage, text, time } from './schemas.ts';

const limitDefault = 100;

export const recordRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/records',
    action: 'bursar:SearchRecords',
    summary:
      'Search the audit records that the caller may see, in the order of the log. ' +
      'A page may be empty and still have a `next`: the search goes on there until it is null. ' +
      'What is not what was recorded is only `altered` and `index`, whatever was asked for.',
    query: {
      from: { ...time, description: 'Not before this time (RFC 3339).' },
      to: { ...time, description: 'Before this time (RFC 3339).' },
      tenant: text('Of principals of this tenant, and about its buckets.'),
      principal: text('`alice`, or `cms/alice` with its tenant.'),
      bucket: { type: 'string' },
      prefix: text('Of object keys that begin so.'),
      action: text('`s3:PutObject`, `bursar:CreateTenant`'),
      token: text('The `jti` of a token in whose chain they were made.'),
      status: { type: 'string', pattern: '^[1-5][0-9]{2}$', description: 'HTTP status.' },
      address: text("The client's address, as records have it."),
      cursor: {
        type: 'string',
        pattern: '^[0-9]{1,15}$',
        description: 'The `next` of the page before.',
      },
      limit: {
        type: 'string',
        pattern: '^([1-9][0-9]{0,2}|1000)$',
        description: `Records a page, 1 to 1000; ${limitDefault} if absent.`,
      },
    },
    answer: answerPage('records', { type: 'object', additionalProperties: true }),
    run: async (call) => {
      const scope = visibleScope(call);
      if (!scope) return { answer: { records: [], next: null } };
      const { query } = call;
      const { records, nextIndex } = await call.deps.search.find({
        ...scope,
        bucket: query.bucket,
        prefix: query.prefix,
        action: query.action,
        token: query.token,
        status: query.status === undefined ? undefined : Number(query.status),
        source: query.address,
        fromMs: timeOf(query.from),
        toMs: timeOf(query.to),
        afterIndex: query.cursor === undefined ? undefined : Number(query.cursor),
        limit: Number(query.limit ?? limitDefault),
      });
      const next = nextIndex === null ? 'null' : `"${nextIndex}"`;
      const texts = records.map(({ index, text }) => text ?? `{"altered":true,"index":${index}}`);
      return { answer: `{"records":[${texts.join(',')}],"next":${next}}` };
    },
  },
];

/** Whose records are asked for, within what the caller may see; undefined: nobody's. */
function visibleScope({ who, reach, query }: Call) {
  const parts = query.principal?.split('/') ?? [];
  const name = parts.at(-1);
  const asked = parts.length > 1 ? parts.slice(0, -1).join('/') : undefined;
  const isSelf = reach === 'self';
  const requesterTenant = isSelf ? (asked ?? who.tenant) : asked;
  const principal = isSelf ? (name ?? who.name) : name;
  if (isSelf && (requesterTenant !== who.tenant || principal !== who.name)) return undefined;
  // An index leads through what may be seen, never through what is asked for beyond that: how much
  // there is of that is not the caller's to know.
  const visible = reach === 'all' ? undefined : who.tenant;
  const tenant = visible ?? query.tenant ?? requesterTenant ?? null;
  return { tenant, otherTenant: query.tenant, requesterTenant, principal };
}

function timeOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
