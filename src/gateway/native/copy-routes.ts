// Native API: copies of extents that classes of several legs have promised and that are not there,
// or not as they were written (docs/admin/classes.md). Invariants: nobody is told of extents of
// other tenants, but for operators, who ask for those of the gateway's own tenant and see all; and
// to have one tried at once changes nothing but when that is.
import {
  type CopyPlace,
  listWaiting,
  listWaitingOf,
  type WaitingCopy,
} from '../../catalog/extent-copies.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { defaultTenant } from '../../core/principal.ts';
import { type Call, checkPlace, param, routeTable } from './route.ts';
import { answerObject, closedObject, integer, text, textOrNull, time } from './schemas.ts';

/** How many copies one call shows at most, and are read at once. */
const shownMax = 1000;
/** One call reads so often: a page may have fewer copies, or none, and others follow. */
const looksMax = 20;

const cursorForm = '^[0-9]{1,15}-[0-9a-f]{32}-[0-9]{1,9}$';

const shownCopy = {
  extent: text('Its id, 32 hexadecimal digits.'),
  tenant: text('Whose objects have it.'),
  store: text('The name of the store in which the copy is to be.'),
  kind: text('`copy`: it is to be made; `repair`: it was found false, and is to be made again.', {
    enum: ['copy', 'repair'],
  }),
  state: text('`due`, or `waiting` after a failure.', { enum: ['due', 'waiting'] }),
  since: { ...time, description: 'When the write was acknowledged, or it was found false.' },
  dueAt: { ...time, description: 'When it is tried next.' },
  tries: integer('How often it has failed.'),
} as const;

const copies = { type: 'array', items: answerObject(shownCopy) } as const;

const retrySchema = closedObject(
  { retry: { type: 'boolean', enum: [true], description: 'It is tried at once.' } as const },
  ['retry'],
);

export const copyRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/copies',
    action: 'bursar:ListCopies',
    isPolled: true,
    summary:
      'Copies of extents of the tenant that are to be made or made again, those that are tried ' +
      'first at first. Operators see those of all tenants as those of the tenant `default`. A ' +
      'page has at most 1000, and may have fewer, or none, where others follow.',
    query: { after: text('The `next` of the page before.', { pattern: cursorForm }) },
    answer: answerObject({
      copies,
      next: textOrNull('Where the next page begins; null: that was all.'),
    }),
    run: async (call) => {
      await checkPlace(call);
      const { shown, next } = await listShown(call);
      return { answer: { copies: shown.map(show), next: next && cursorOf(next) } };
    },
  },
  {
    method: 'PUT',
    url: '/_/v1/tenants/:t/copies/:extent',
    action: 'bursar:RetryCopies',
    summary: 'Have the copies of an extent that wait tried at once.',
    body: retrySchema,
    answer: answerObject({ copies }),
    run: async (call) => {
      await checkPlace(call);
      const { deps } = call;
      const extent = param(call, 'extent');
      const id = Buffer.from(/^[0-9a-f]{32}$/.test(extent) ? extent : '', 'hex');
      const found = (await listWaitingOf(deps.read, id)).filter((one) => maySee(call, one));
      if (found.length === 0) {
        throw new Refusal('NotFound', { message: `No copy of an extent ${extent} waits.` });
      }
      await deps.work({ kind: 'retryCopies', id });
      const now = await listWaitingOf(deps.read, id);
      return { answer: { copies: now.map(show) } };
    },
  },
]);

/**
 * A page ends at a copy that it shows, or, where it has looked at many of others, at a time alone:
 * the place of another's would tell of that.
 */
async function listShown(call: Call): Promise<{ shown: WaitingCopy[]; next: CopyPlace | null }> {
  const shown: WaitingCopy[] = [];
  const pace = new Pace();
  const begin = afterOf(call);
  let after: CopyPlace | null = begin;
  for (let looks = 1; ; looks++) {
    const looked = await listWaiting(call.deps.read, after, shownMax);
    shown.push(...looked.filter((one) => maySee(call, one)));
    if (shown.length > shownMax) {
      const page = shown.slice(0, shownMax);
      return { shown: page, next: page.at(-1) ?? null };
    }
    const last = looked.at(-1);
    if (!last || looked.length < shownMax) return { shown, next: null };
    after = last;
    // Copies of one time are looked at in one call, however many they are.
    if (looks >= looksMax && last.dueMs > (begin?.dueMs ?? -1)) {
      const { dueMs } = last;
      const isBefore = (one: WaitingCopy) => one.dueMs < dueMs;
      return { shown: shown.filter(isBefore), next: { dueMs, id: Buffer.alloc(16), store: 0 } };
    }
    await pace.rest();
  }
}

/** What nobody uses any more waits for the sweeper alone. */
function maySee(call: Call, { tenant, isAlive }: WaitingCopy): boolean {
  if (!isAlive || tenant === null) return false;
  const asked = param(call, 't');
  const isOfAll = asked === defaultTenant && call.identity.principal.role === 'operator';
  return isOfAll || tenant === asked;
}

function show({ id, tenant, place, state, changedMs, dueMs, tries }: WaitingCopy): object {
  return {
    ...{ extent: id.toString('hex'), tenant, store: place, kind: state === 2 ? 'copy' : 'repair' },
    state: dueMs <= Date.now() ? 'due' : 'waiting',
    ...{ since: isoTime(changedMs), dueAt: isoTime(dueMs), tries },
  };
}

const cursorOf = ({ dueMs, id, store }: CopyPlace) =>
  `${dueMs}-${Buffer.from(id).toString('hex')}-${store}`;

function afterOf({ query }: Call): CopyPlace | null {
  if (query.after === undefined) return null;
  const [dueMs, id = '', store] = query.after.split('-');
  return { dueMs: Number(dueMs), id: Buffer.from(id, 'hex'), store: Number(store) };
}
