// Native API: targets, where a tenant's buckets can have changes told. Invariants: a secret is
// answered once, when it is made; and a queue, which the gateway asks with its own credentials, is
// an operator's to register.
import { readLagMs } from '../../audit/changes/lag.ts';
import {
  arnOf,
  countDeadLetters,
  listDeadLetters,
  listTargets,
  type NotificationTarget,
  readCursor,
  readTarget,
  targetContext,
  targetKinds,
} from '../../audit/changes/targets.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { checkHookUrl, newSecret, secretText } from '../alarms/webhook.ts';
import {
  type Call,
  listPage,
  nameOf,
  type Outcome,
  pageOf,
  param,
  refuseDelegated,
  refuseMissing,
  routeTable,
} from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  integer,
  name,
  pageQuery,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/targets';
const one = `${collection}/:target`;

const kind = text('A webhook, or a queue of Amazon SQS.', { enum: [...targetKinds] });
const url = text('https://…, where messages are sent by POST; of a queue its URL.', {
  maxLength: 2048,
});
const region = textOrNull('Of a queue.', { pattern: '^[a-z0-9-]{1,32}$' });

const members = {
  ...{ tenant: name, name, kind, url, region },
  arn: text('What notifications of buckets name it by.'),
  createdAt: time,
  cursor: integer('All up to and with this record of the log was told, as far as it concerns it.'),
  behind: integer('Records of the log behind that.'),
  lagSeconds: integer('Age of the first of them, whole seconds; 0: there is none.'),
  deadLetters: integer('Changes that it refused for good.'),
  stuck: boolean('Has it taken nothing for ten minutes, or refused too many?'),
  problem: textOrNull('Why the last message was not taken; null: it was.'),
  failingSince: { ...timeOrNull, description: 'Since when; null: it takes what it is sent.' },
  toldAt: { ...timeOrNull, description: 'When a message was last taken, since the start.' },
} as const;
const target = answerObject(members);
const made = answerObject({
  ...members,
  secret: textOrNull('What messages to a webhook are signed with. It is not shown again.'),
});

const asked = closedObject({ kind, url, region }, ['kind', 'url']);

export const targetRoutes = routeTable([
  {
    method: 'PUT',
    url: one,
    action: 'bursar:PutTarget',
    summary:
      'Register a target, where buckets of the tenant can have changes told; a webhook gets a ' +
      'new secret. What was told to the one before is not told again.',
    body: asked,
    answer: made,
    run: async (call) => putTarget(call),
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListTargets',
    summary: "List a tenant's targets, by name.",
    query: pageQuery,
    answer: answerPage('targets', target),
    run: (call) => {
      const list = () => listTargets(call.deps.read, param(call, 't'), pageOf(call));
      return listPage(call, 'targets', list, (found) => show(call, found), nameOf);
    },
  },
  {
    method: 'GET',
    url: one,
    action: 'bursar:GetTarget',
    summary: 'Show a target, and how it goes with it.',
    answer: target,
    run: async (call) => ({ answer: await show(call, await find(call)) }),
  },
  {
    method: 'DELETE',
    url: one,
    action: 'bursar:DeleteTarget',
    summary: 'Tell a target of nothing any more. Notifications that name it stay, and tell nobody.',
    run: async (call) => ({
      change: { kind: 'deleteTarget', tenant: param(call, 't'), name: param(call, 'target') },
    }),
  },
  {
    method: 'POST',
    url: `${one}/test`,
    action: 'bursar:PutTarget',
    operation: 'TestTarget',
    summary: 'Send a target a message that tells of no change, once.',
    answer: answerObject({ problem: textOrNull('Why it was not taken. Null: it was.') }),
    run: async (call) => ({
      answer: { problem: await call.deps.notifier.test(await find(call)) },
    }),
  },
  {
    method: 'POST',
    url: `${one}/resend`,
    action: 'bursar:ResendToTarget',
    summary:
      'Tell a target once more of all that concerns it behind a record of the log, in order. ' +
      'Dead letters behind it are none any more.',
    body: closedObject({ after: integer('A log index; -1: from the beginning.') }, ['after']),
    answer: target,
    run: async (call) => {
      const { after } = call.body as { after: number };
      const newest = await call.deps.changes.newest();
      if (after < -1 || after > newest) {
        const message = `body.after must be -1 to ${newest}.`;
        throw new Refusal('InvalidInput', { message, fields: { field: 'body.after' } });
      }
      const id = { tenant: param(call, 't'), name: param(call, 'target') };
      return {
        change: { kind: 'resendToTarget', ...id, after },
        answer: async () => {
          call.deps.notifier.renew(id);
          return show(call, await find(call));
        },
      };
    },
  },
  {
    method: 'GET',
    url: `${one}/dead-letters`,
    action: 'bursar:GetTarget',
    operation: 'ListDeadLetters',
    summary: 'List the changes that a target refused for good, in the order of the log.',
    query: { ...pageQuery, after: text('The `next` before.', { pattern: '^[0-9]{1,15}$' }) },
    answer: answerPage(
      'deadLetters',
      answerObject({
        index: integer('Of the record of the change.'),
        at: { ...time, description: 'When it was given up.' },
        reason: text('Why the target refused it.'),
      }),
    ),
    run: async (call) => {
      const { tenant, name: of } = await find(call);
      const { after, limit } = pageOf(call);
      const from = { after: after === '' ? -1 : Number(after), limit };
      const found = await listDeadLetters(call.deps.read, { tenant, name: of }, from);
      const deadLetters = found.map(({ index, timeMs, reason }) => {
        return { index, at: isoTime(timeMs), reason };
      });
      const last = found.length === limit ? found.at(-1) : undefined;
      return { answer: { deadLetters, next: last ? String(last.index) : null } };
    },
  },
]);

interface Asked {
  kind: NotificationTarget['kind'];
  url: string;
  region?: string | null;
}

function putTarget(call: Call): Outcome {
  // A target would go on being told long after the token has expired.
  refuseDelegated(call);
  const id = { tenant: param(call, 't'), name: param(call, 'target') };
  const { kind: is, url: place, region: inRegion = null } = call.body as Asked;
  const queueRegion = is === 'sqs' ? checkQueue(call, place, inRegion) : checkWebhook(call, place);
  const secret = is === 'webhook' ? newSecret() : null;
  const sealedSecret = secret && call.deps.sealer.seal(secret, targetContext(id.tenant, id.name));
  const change = { kind: 'putTarget', ...id, is, url: place, region: queueRegion } as const;
  return {
    change: { ...change, sealedSecret },
    answer: async () => {
      call.deps.notifier.renew(id);
      return { ...(await show(call, await find(call))), secret: secret && secretText(secret) };
    },
  };
}

function checkWebhook({ deps, params }: Call, place: string): null {
  checkHookUrl(place, deps.alarms.policyOf({ tenant: params.t ?? null }));
  return null;
}

const queuePath = /^\/\d{12}\/[A-Za-z0-9_-]{1,80}(?:\.fifo)?$/;
const queueHost = /^sqs\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)$/;

/** Gives its region. Throws `Refusal`. */
function checkQueue({ reach }: Call, place: string, region: string | null): string {
  // Whoever could name any queue would use the gateway's rights for their own.
  if (reach !== 'all') {
    const message = 'The gateway asks queues with its own credentials: operators register them.';
    throw new Refusal('AccessDenied', { message });
  }
  const queue = URL.canParse(place) ? new URL(place) : undefined;
  const isQueue =
    queue !== undefined &&
    /^https?:$/.test(queue.protocol) &&
    queuePath.test(queue.pathname) &&
    !(queue.username || queue.password || queue.search || queue.hash);
  if (!isQueue) throw invalid('url', 'must be the URL of a queue: https://…/ACCOUNT/NAME');
  const found = region ?? queueHost.exec(queue.hostname)?.[1];
  if (found === undefined) throw invalid('region', 'is needed: the URL does not say it');
  return found;
}

function invalid(field: string, what: string): Refusal {
  return new Refusal('InvalidInput', {
    message: `body.${field} ${what}.`,
    fields: { field: `body.${field}` },
  });
}

async function find(call: Call): Promise<NotificationTarget> {
  const found = await readTarget(call.deps.read, param(call, 't'), param(call, 'target'));
  return found ?? refuseMissing(call, 'NotFound');
}

async function show({ deps }: Call, found: NotificationTarget): Promise<object> {
  const { tenant, name: of, kind: is, url: place, region: inRegion, createdMs } = found;
  const state = deps.notifier.stateOf(found);
  const cursor = state?.cursor ?? (await readCursor(deps.read, found)) ?? -1;
  const lagMs = await readLagMs(deps.read, cursor);
  return {
    ...{ tenant, name: of, kind: is, url: place, region: inRegion, arn: arnOf(found) },
    createdAt: isoTime(createdMs),
    cursor,
    behind: Math.max((await deps.changes.newest()) - cursor, 0),
    lagSeconds: Math.floor(lagMs / 1000),
    deadLetters: await countDeadLetters(deps.read, found),
    stuck: state?.isStuck ?? false,
    problem: state?.problem ?? null,
    failingSince: state?.failingSince ?? null,
    toldAt: state?.toldAt ?? null,
  };
}
