// Native API: usage counters of accounts (`tenant:cms`, `principal:cms/alice`, `bucket:cms/raw`).
import { Refusal } from '../../core/errors.ts';
import { listUsage, readUsage } from '../../quota/usage.ts';
import type { NativeDeps } from './deps.ts';
import { type Call, type NativeRoute, param } from './route.ts';
import { answerObject } from './schemas.ts';

const money = { type: 'string', description: 'Picodollars, 1e-12 USD each, in decimal.' };

const counter = (description: string) => ({ type: 'integer', description });

const usage = answerObject({
  account: { type: 'string' },
  spend: money,
  requests: counter('Operations that have a price, and were not refused before they began.'),
  ingressBytes: counter('Bytes received.'),
  egressBytes: counter('Bytes sent.'),
  storedBytes: counter('Bytes stored now.'),
  storedObjects: counter('Objects stored now.'),
});

export const usageRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/usage',
    action: 'bursar:ListUsage',
    summary: 'Usage of all accounts that the caller may see.',
    status: 200,
    answer: answerObject({ usage: { type: 'array', items: usage } }),
    run: async ({ who, reach, deps }) => {
      if (reach === 'self') {
        return { answer: { usage: [await readUsage(deps.read, `principal:${who.id}`)] } };
      }
      return { answer: { usage: await listUsage(deps.read, reach === 'all' ? null : who.tenant) } };
    },
  },
  {
    method: 'GET',
    url: '/_/v1/usage/:account',
    action: 'bursar:GetUsage',
    summary: 'Usage of one account; its name is one percent-encoded path segment.',
    status: 200,
    answer: usage,
    run: async (call) => {
      const account = param(call, 'account');
      if (!(await isVisible(call, account))) throw new Refusal('NotFound');
      return { answer: await readUsage(call.deps.read, account) };
    },
  },
];

/** Whether the account exists and the caller may see it; the two are not told apart. */
async function isVisible({ who, reach, deps }: Call, account: string): Promise<boolean> {
  const match = /^(tenant|principal|bucket):([^/]+)(?:\/([^/]+))?$/.exec(account);
  const [, kind, tenant, name] = match ?? [];
  if (kind === undefined || tenant === undefined) return false;
  if (reach !== 'all' && tenant !== who.tenant) return false;
  if (reach === 'self' && account !== `principal:${who.id}`) return false;
  return accountExists(deps, kind, tenant, name);
}

async function accountExists(
  { directory, read }: NativeDeps,
  kind: string,
  tenant: string,
  name: string | undefined,
): Promise<boolean> {
  if (kind === 'tenant') return name === undefined && !!(await directory.readTenant(tenant));
  if (name === undefined) return false;
  if (kind === 'principal') return !!(await directory.readPrincipal(tenant, name));
  return !!(await read.get('SELECT 1 FROM buckets WHERE tenant = ? AND name = ?', tenant, name));
}
