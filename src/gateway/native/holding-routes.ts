// Native API: what is a principal's, or names it, and would keep it from being deleted or stop
// working then. Each of these can be given to another by itself: buckets, unfinished uploads in the
// tenant's buckets, share links that work, and grants of the tenant. What names it besides is told,
// and cannot be given: bucket policies, groups that it is in, its limits, tokens that act in its
// name, and its own mounts.
import { lineOf, listTokens } from '../../authz/issued-tokens.ts';
import { listShares } from '../../authz/shares.ts';
import { listOwned, listPolicies } from '../../catalog/buckets.ts';
import { listInitiated } from '../../catalog/uploads.ts';
import { nowMs } from '../../core/clock.ts';
import { Pace } from '../../core/pace.ts';
import { principalId } from '../../core/principal.ts';
import { listAccounts } from '../../quota/account-list.ts';
import { parseAccount } from '../../quota/accounts.ts';
import { type Call, checkPlace, pageOf, param, routeTable } from './route.ts';
import { answerObject, answerPage, boolean, pageQuery, text, textOrNull } from './schemas.ts';
import { stateOf } from './share-routes.ts';

const kinds = [
  ...(['bucket', 'upload', 'share', 'grant', 'policy', 'group', 'limit'] as const),
  ...(['token', 'mount'] as const),
] as const;
type Kind = (typeof kinds)[number];

const holding = answerObject({
  kind: { type: 'string', enum: [...kinds] },
  name: text(
    'Of a bucket, a grant or a group its name, of a policy that of its bucket, of an upload or ' +
      'share link or a token its id, of limits their account, of a mount its own.',
  ),
  bucket: textOrNull('That it is, or is in; of a share link `TENANT:BUCKET`.'),
  key: textOrNull('Of an upload or a share link.'),
  blocks: boolean('It keeps the principal from being deleted.'),
  hasObjectLock: boolean('Of a bucket: what is locked in it cannot be deleted before its time.'),
});

interface Holding {
  kind: Kind;
  name: string;
  bucket: string | null;
  key: string | null;
  blocks: boolean;
  hasObjectLock: boolean;
}

export const holdingRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/principals/:p/holdings',
    action: 'bursar:ListHoldings',
    summary:
      "List what is a principal's or names it: buckets, uploads, share links and grants, and " +
      'policies, groups, limits, tokens that work and mounts of its own.',
    query: { ...pageQuery, after: { ...pageQuery.after, maxLength: 256 } },
    answer: answerPage('holdings', holding),
    run: async (call) => {
      await checkPlace(call);
      const { after, limit } = pageOf(call);
      const [, asked = 'bucket', name = ''] = /^([a-z]+):(.*)$/s.exec(after) ?? [];
      const holdings: Holding[] = [];
      const from = Math.max(kinds.indexOf(asked as Kind), 0);
      for (const [i, kind] of kinds.slice(from).entries()) {
        const max = limit - holdings.length;
        if (max > 0) holdings.push(...(await list[kind](call, i === 0 ? name : '', max)));
      }
      const last = holdings.length === limit ? holdings.at(-1) : undefined;
      return { answer: { holdings, next: last ? `${last.kind}:${last.name}` : null } };
    },
  },
]);

const none = { bucket: null, key: null, blocks: false, hasObjectLock: false };

type List = (call: Call, after: string, max: number) => Promise<Holding[]>;

/** By name or id, at most `max` behind `after`. */
const list: Readonly<Record<Kind, List>> = {
  bucket: async (call, after, max) => {
    const [tenant, owner] = [param(call, 't'), param(call, 'p')];
    const names = await listOwned(call.deps.read, { tenant, owner, after, max });
    const holdings: Holding[] = [];
    for (const name of names) {
      const hasObjectLock =
        ((await call.deps.buckets.find(tenant, name))?.objectLock ?? null) !== null;
      holdings.push({ ...none, kind: 'bucket', name, bucket: name, blocks: true, hasObjectLock });
    }
    return holdings;
  },
  upload: async (call, after, max) => {
    const tenant = param(call, 't');
    const initiator = principalId(tenant, param(call, 'p'));
    const uploads = await listInitiated(call.deps.read, { tenant, initiator, after, max });
    return uploads.map(({ id: name, ...at }) => ({ ...none, kind: 'upload', name, ...at }));
  },
  share: (call, after, max) => {
    const [tenant, principal] = [param(call, 't'), param(call, 'p')];
    return filled(after, max, {
      read: (id) =>
        listShares(
          call.deps.read,
          { tenant, principal },
          {
            after: { tenant, principal, id },
            limit: max,
          },
        ),
      nameOf: ({ id }) => id,
      isMeant: (share) => stateOf(share) === 'valid',
      show: ({ id: name, bucketTenant, bucket: of, key }) => {
        return { ...none, kind: 'share', name, bucket: `${bucketTenant}:${of}`, key };
      },
    });
  },
  grant: (call, after, max) => {
    const tenant = param(call, 't');
    const subject = `principal:${principalId(tenant, param(call, 'p'))}`;
    return filled(after, max, {
      read: (name) => call.deps.grants.list(tenant, { after: name, limit: readAtOnce }),
      nameOf: ({ grant }) => grant.name,
      isMeant: ({ grant }) => grant.subjects.includes(subject),
      show: ({ grant: { name, bucket = null } }) => {
        return { ...none, kind: 'grant', name, bucket };
      },
    });
  },
  policy: (call, after, max) => {
    const [tenant, principal] = [param(call, 't'), param(call, 'p')];
    // The two forms in which policies name principals, each a text of its own.
    const forms = [`arn:aws:iam::${tenant}:user/${principal}`, principalId(tenant, principal)];
    const named = forms.map((form) => JSON.stringify(form));
    return filled(after, max, {
      read: (name) => listPolicies(call.deps.read, { tenant, after: name, max: readAtOnce }),
      nameOf: ({ name }) => name,
      isMeant: ({ policy }) => named.some((form) => policy.includes(form)),
      show: ({ name }) => {
        return { ...none, kind: 'policy', name, bucket: name };
      },
    });
  },
  group: async (call, after, max) => {
    const [tenant, principal] = [param(call, 't'), param(call, 'p')];
    const { groups = [] } = (await call.deps.directory.readPrincipal(tenant, principal)) ?? {};
    const behind = [...groups].sort().filter((name) => name > after);
    return behind.slice(0, max).map((name) => {
      return { ...none, kind: 'group', name };
    });
  },
  limit: async (call, after, max) => {
    const tenant = param(call, 't');
    const of = { tenant, principal: param(call, 'p') };
    return filled(after, max, {
      read: (name) =>
        listAccounts(call.deps.read, of, { after: name, limit: readAtOnce, isLimited: true }),
      nameOf: (name) => name,
      isMeant: (name) => namesIt(name, principalId(tenant, of.principal)),
      show: (name) => ({ ...none, kind: 'limit', name }),
    });
  },
  token: (call, after, max) => {
    const [tenant, principal] = [param(call, 't'), param(call, 'p')];
    return filled(after, max, {
      read: (id) => {
        const page = { after: { tenant, principal, id }, limit: readAtOnce };
        return listTokens(call.deps.read, { tenant, principal }, page);
      },
      nameOf: ({ id }) => id,
      // Those that were made of others go with them.
      isMeant: ({ id, parent, isActive, expiresMs }) =>
        parent === null &&
        isActive &&
        expiresMs > nowMs() &&
        !call.deps.revocations.has(lineOf(id)),
      show: ({ id: name }) => ({ ...none, kind: 'token', name }),
    });
  },
  mount: async (call, after, max) => {
    const id = principalId(param(call, 't'), param(call, 'p'));
    const all = [...call.deps.mounts.listOwn(id)].filter(({ name }) => name > after);
    all.sort((a, b) => (a.name < b.name ? -1 : 1));
    return all.slice(0, max).map(({ name, bucketTenant, bucket }) => {
      return { ...none, kind: 'mount', name, bucket: `${bucketTenant}:${bucket}` };
    });
  },
};

/** The account of a principal, or of it as a writer. Those in other tenants are theirs. */
function namesIt(account: string, id: string): boolean {
  const parsed = parseAccount(account);
  if (parsed?.kind === 'principal') return principalId(parsed.tenant, parsed.name) === id;
  if (parsed?.kind !== 'writer' || parsed.tenant !== parsed.writer.tenant) return false;
  return principalId(parsed.writer.tenant, parsed.writer.name) === id;
}

const readAtOnce = 1000;

/** Of a listing those that are meant. Others have their turns meanwhile. */
async function filled<E>(
  after: string,
  max: number,
  from: {
    read(after: string): Promise<readonly E[]>;
    nameOf(entry: E): string;
    isMeant(entry: E): boolean;
    show(entry: E): Holding;
  },
): Promise<Holding[]> {
  const found: Holding[] = [];
  const pace = new Pace();
  for (let last = after; ; ) {
    const entries = await from.read(last);
    for (const entry of entries) {
      if (from.isMeant(entry)) found.push(from.show(entry));
      if (found.length === max) return found;
    }
    const end = entries.at(-1);
    if (end === undefined) return found;
    last = from.nameOf(end);
    await pace.rest();
  }
}
