// Native API: where alarms are told, one webhook for a principal, which gets those of its own
// accounts, one for a tenant, and one for the gateway, which gets the alarms of all. Invariants:
// the secret is answered once, when it is made; nobody but an operator reads or sets the gateway's;
// and who administers nothing has their own alarms alone, by mail, to domains that are allowed.
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import {
  type AlarmHook,
  type HookOf,
  hookContext,
  readAlarmHook,
} from '../../quota/limits/alarm-hooks.ts';
import { addressOf, checkAddress } from '../alarms/mail.ts';
import { checkHookUrl, newSecret, secretText } from '../alarms/webhook.ts';
import { type Call, checkPlace, type Outcome, refuseDelegated, routeTable } from './route.ts';
import {
  answerObject,
  closedObject,
  integer,
  name,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';

const url = text('Where messages are sent by POST, https://…, or by mail, mailto:ADDRESS.', {
  maxLength: 2048,
});

const members = {
  tenant: { anyOf: [name, { type: 'null' }], description: 'null: the gateway’s.' },
  principal: { anyOf: [name, { type: 'null' }], description: 'null: of the whole tenant.' },
  url,
  createdAt: time,
  waiting: integer('Messages that were not taken yet.'),
  problem: textOrNull('That the last attempt failed; why, only where it is the operator’s.'),
  toldAt: { ...timeOrNull, description: 'When a message was last taken, since the start.' },
} as const;

const hook = answerObject(members);
const made = answerObject({
  ...members,
  secret: textOrNull('What messages are signed with; not shown again. Null: mails are not.'),
});

export const tenantAlarmRoutes = routesAt(
  '/_/v1/tenants/:t/alarm-hook',
  'Tenant',
  'a tenant’s accounts',
);
export const ownAlarmRoutes = routesAt(
  '/_/v1/tenants/:t/principals/:p/alarm-hook',
  'Own',
  'a principal’s own accounts',
);
export const gatewayAlarmRoutes = routesAt('/_/v1/alarm-hook', 'Gateway', 'all accounts');

function routesAt<const W extends string>(path: string, whose: W, accounts: string) {
  return routeTable([
    {
      method: 'PUT',
      url: path,
      action: 'bursar:PutAlarmHook',
      operation: `Put${whose}AlarmHook` as const,
      summary: `Tell the alarms of ${accounts} to this webhook, with a new secret.`,
      body: closedObject({ url }, ['url']),
      answer: made,
      run: async (call) => putHook(call),
    },
    {
      method: 'GET',
      url: path,
      action: 'bursar:GetAlarmHook',
      operation: `Get${whose}AlarmHook` as const,
      summary: `Show the webhook that the alarms of ${accounts} are told to.`,
      answer: hook,
      run: async (call) => ({ answer: await showHook(call, ownerOf(call)) }),
    },
    {
      method: 'POST',
      url: `${path}/test`,
      action: 'bursar:PutAlarmHook',
      operation: `Test${whose}AlarmHook` as const,
      summary: `Send the webhook for ${accounts} a message that is no alarm, once.`,
      answer: answerObject({
        problem: textOrNull(
          'That it was not taken; why, only where it is the operator’s. Null: it was.',
        ),
      }),
      run: async (call) => {
        const found = await findHook(call, ownerOf(call));
        return { answer: { problem: await call.deps.alarms.test(found) } };
      },
    },
    {
      method: 'DELETE',
      url: path,
      action: 'bursar:DeleteAlarmHook',
      operation: `Delete${whose}AlarmHook` as const,
      summary: `Tell no webhook of the alarms of ${accounts}.`,
      run: async (call) => ({
        change: { kind: 'setAlarmHook', ...ownerOf(call), hook: null },
      }),
    },
  ]);
}

/** Whose webhook the path names. Throws `AccessDenied` to callers who may not use it. */
function ownerOf({ params: { t, p }, reach }: Call): HookOf {
  const [tenant, principal] = [t ?? null, p ?? null];
  if (tenant === null && reach !== 'all') throw new Refusal('AccessDenied');
  if (principal === null && reach === 'self') throw new Refusal('AccessDenied');
  return { tenant, principal };
}

function putHook(call: Call): Outcome {
  // A webhook would go on telling what happens long after the token has expired.
  refuseDelegated(call);
  const of = ownerOf(call);
  const { url: wanted } = call.body as { url: string };
  const address = addressOf(wanted);
  const { mailer } = call.deps.alarms;
  if (address !== undefined) checkAddress(address, { mailer, isOperator: of.tenant === null });
  else if (call.reach !== 'self') checkHookUrl(wanted, call.deps.alarms.policyOf(of));
  else throw new Refusal('InvalidInput', { message: mailOnly, fields: { field: 'body.url' } });
  const secret = newSecret();
  const sealedSecret = call.deps.sealer.seal(secret, hookContext(of));
  return {
    change: { kind: 'setAlarmHook', ...of, hook: { url: wanted, sealedSecret } },
    answer: async () => {
      const signs = address === undefined;
      return { ...(await showHook(call, of)), secret: signs ? secretText(secret) : null };
    },
  };
}

const mailOnly =
  'body.url must be an address, mailto:NAME@DOMAIN: only admins set a webhook for a principal.';

async function showHook(call: Call, of: HookOf): Promise<object> {
  const { url: place, createdMs } = await findHook(call, of);
  const state = call.deps.alarms.stateOf(of);
  return { ...of, url: place, createdAt: isoTime(createdMs), ...state };
}

/** Throws `NotFound`, `NoSuchTenant` or `NoSuchPrincipal`. */
async function findHook(call: Call, of: HookOf): Promise<AlarmHook> {
  const found = await readAlarmHook(call.deps.read, of);
  if (found) return found;
  await checkPlace(call);
  throw new Refusal('NotFound', { message: 'No webhook is set.' });
}
