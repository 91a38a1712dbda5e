// Native API: what became of one request, from its records and from what the threads remember of
// the newest requests. Invariants: who may not see the records of a principal is answered of its
// requests as if there were none; and how much is searched is bounded.

import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import type { RequestStory } from '../../instruments/recent-requests.ts';
import { stages } from '../../instruments/stage-clock.ts';
import { visibleScope } from './record-routes.ts';
import { type Call, param, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  integer,
  integerOrNull,
  text,
  textOrNull,
  time,
} from './schemas.ts';

/** A record is written at the latest so long after its request has ended. */
const recordedWithinMs = 60_000;
/** How far around `near`, and before now, records are looked for. */
const nearMs = 600_000;
const backMs = 3_600_000;
const pageRecords = 1000;
const pagesMax = 10;

const ms = (description: string) => ({ type: 'number', description }) as const;

const story = {
  ...answerObject({
    time: { ...time, description: 'When it ended.' },
    way: text('`s3`, `share`, `sts`, `preflight`, `native` or `open`.'),
    method: text('Of HTTP.'),
    operation: textOrNull('null: it was refused before that was known.'),
    tenant: textOrNull('Of who asked.'),
    principal: textOrNull('Who asked; null: that was not known when it was refused.'),
    bucket: textOrNull('`tenant:bucket` where it is of another tenant.'),
    store: textOrNull("The bucket's store."),
    status: integer('Of the answer; 0: none was sent.'),
    error: textOrNull('Code of the refusal or failure.'),
    message: textOrNull('Why, in the words of the answer: which rule, link or limit it was.'),
    rule: textOrNull(
      'What let it in, or refused it, as `explain` names it: a rule, `owner`, `admin`, `role`, ' +
        '`acl`, `maker`, or `token` and `session-policy`, which narrow a credential; `default`: ' +
        'nothing allowed it. A rule that refused it, and the name of another tenant’s, only who ' +
        'administers the bucket’s tenant is told. null: that was not asked, or is not told.',
    ),
    bytesIn: integer('Of the body that came.'),
    bytesOut: integer('Of the body that was sent.'),
    record: integerOrNull('Index of its record, where that was made before the answer.'),
    source: text("The client's address."),
    durationMs: ms('From its head to the end of the answer.'),
    firstByteMs: ms('To the first byte of the answer; 0: there was none.'),
    stagesMs: answerObject(
      Object.fromEntries(stages.map((stage) => [stage, ms('Milliseconds in this stage.')])),
    ),
  }),
  type: ['object', 'null'],
  description: 'null: it is no longer among the newest requests that are kept in memory.',
} as const;

export const requestRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/requests/:request',
    action: 'bursar:GetRequest',
    summary:
      'What became of a request, by its x-amz-request-id: who, what, why it was refused, how ' +
      'long each stage took, and its records. For who may see its records.',
    query: {
      near: { ...time, description: 'About when it was; absent: in the last hour.' },
    },
    answer: answerObject({
      requestId: { type: 'string' },
      request: story,
      records: { type: 'array', items: { type: 'object', additionalProperties: true } },
      searched: answerObject({
        from: time,
        to: time,
        whole: boolean('false: there were too many records in that time to look at all.'),
      }),
    }),
    run: async (call) => {
      const id = param(call, 'request');
      if (!/^[0-9A-F]{16}$/.test(id)) throw new Refusal('NoSuchRequest');
      const found = await call.deps.recentRequests.find(id);
      const seen = found && maySee(call, found) ? found : undefined;
      const { records, searched } = await findRecords(call, id, seen);
      if (!seen && records.length === 0) throw new Refusal('NoSuchRequest');
      const request = JSON.stringify(seen ? show(seen, call) : null);
      const members = `"requestId":"${id}","request":${request},"records":[${records.join(',')}]`;
      return { answer: `{${members},"searched":${JSON.stringify(searched)}}` };
    },
  },
]);

/** Of strangers only operators are told: who they say that they are is not proven. */
function maySee({ who, reach }: Call, { tenant, principal }: RequestStory): boolean {
  if (reach === 'all') return true;
  if (tenant === null || tenant !== who.tenant) return false;
  return reach === 'tenant' || principal === who.name;
}

/** Which rules there are, and when they deny, is for those to know whose bucket it is. */
function ruleFor({ who, reach }: Call, { rule, ruleTenant, error }: RequestStory): string | null {
  const isOthers = ruleTenant !== who.tenant;
  const mayKnow = reach === 'all' || (reach === 'tenant' && who.role === 'admin' && !isOthers);
  const [kind = '', name] = rule?.split(':', 2) ?? [];
  if (rule === null || name === undefined || mayKnow) return rule;
  if (error === 'AccessDenied') return null;
  return isOthers ? kind : rule;
}

async function findRecords(call: Call, id: string, seen: RequestStory | undefined) {
  const { fromMs, toMs } = spanOf(call, seen);
  const scope = visibleScope(call);
  const records: string[] = [];
  let pastIndex: number | undefined;
  let whole = true;
  // A member of a record, which cannot stand in any text of it: quotes are escaped there.
  const mark = `"requestId":"${id}"`;
  for (let page = 0; scope; page++) {
    if (page === pagesMax) {
      whole = false;
      break;
    }
    const span = { fromMs, toMs, pastIndex, limit: pageRecords };
    const found = await call.deps.search.find({ ...scope, ...span });
    for (const { text: record } of found.records) {
      if (record?.includes(mark)) records.push(record);
    }
    if (found.nextIndex === null) break;
    pastIndex = found.nextIndex;
  }
  return { records, searched: { from: isoTime(fromMs), to: isoTime(toMs), whole } };
}

function spanOf({ query: { near } }: Call, seen: RequestStory | undefined) {
  if (seen) {
    const { endedMs, durationMs } = seen;
    const beganMs = Math.floor(endedMs - durationMs);
    return { fromMs: beganMs - recordedWithinMs, toMs: endedMs + recordedWithinMs };
  }
  if (near !== undefined) {
    const atMs = Date.parse(near);
    return { fromMs: atMs - nearMs, toMs: atMs + nearMs };
  }
  return { fromMs: nowMs() - backMs, toMs: nowMs() + recordedWithinMs };
}

function show(story: RequestStory, call: Call): object {
  const { id: _, endedMs, stagesMs, ruleTenant: __, ...told } = story;
  const rounded = Object.entries(stagesMs).map(([stage, spent]) => [stage, toMicros(spent)]);
  return {
    ...told,
    rule: ruleFor(call, story),
    time: isoTime(endedMs),
    durationMs: toMicros(told.durationMs),
    firstByteMs: toMicros(told.firstByteMs),
    stagesMs: Object.fromEntries(rounded),
  };
}

/** Milliseconds to three digits. */
function toMicros(spentMs: number): number {
  return Math.round(spentMs * 1000) / 1000;
}
