// Native API: the outside issuers whose tokens a tenant trusts.
import { canonicalPathPrefix, checkIssuerUrl, type IssuerEntry } from '../../authz/oidc/issuer.ts';
import { listIssuers, readIssuer } from '../../authz/oidc/issuer-book.ts';
import { Refusal } from '../../core/errors.ts';
import { issuersPerTenantMax } from '../../core/limits.ts';
import { isName, notTheName } from '../../core/names.ts';
import type { NativeDeps } from './deps.ts';
import {
  type Call,
  checkPlace,
  param,
  refuseDelegated,
  refuseMissing,
  routeTable,
  showDated,
} from './route.ts';
import { answerObject, closedObject, type Json, name, text, textOrNull, time } from './schemas.ts';

const collection = '/_/v1/tenants/:t/issuers';

const url = text('The issuer, in the very text that its tokens have in `iss`: https://….');

const audience = text(
  'What tokens must have in `aud` to be for this tenant: a text that ends with a slash and the ' +
    'tenant’s name, such as the gateway’s URL and that. Only operators may set another.',
  { minLength: 1, maxLength: 255 },
);

/** Names of the tenant's by texts of the issuer's. */
const names = {
  type: 'object',
  additionalProperties: name,
  propertyNames: { type: 'string', minLength: 1, maxLength: 255 },
  maxProperties: 1000,
} as const;

const members = {
  pathPrefix: text('Where tokens reach, and where the paths of their `storage.*` scopes begin.'),
  principals: { ...names, description: 'Names of principals by the tokens’ `sub`.' },
  groups: {
    ...names,
    description: 'Names of groups by entries of the tokens’ `wlcg.groups` or `groups`.',
  },
  defaultPrincipal: {
    anyOf: [name, { type: 'null' }],
    description: 'For every other `sub`; null: those are refused.',
  },
} as const;

const mapping = closedObject(
  {
    ...members,
    principals: { ...members.principals, default: {} },
    groups: { ...members.groups, default: {} },
    defaultPrincipal: { ...members.defaultPrincipal, default: null },
  },
  ['pathPrefix'],
);

const issuer = answerObject({
  tenant: name,
  name,
  url,
  audience,
  mapping: answerObject(members),
  keys: {
    ...answerObject({
      count: { type: 'integer' },
      fetchedAt: { anyOf: [time, { type: 'null' }] },
      problem: textOrNull('That the last try to fetch them failed; the operator’s log says why.'),
    }),
    description: 'What the gateway has of the issuer’s keys. It asks for them when a token comes.',
  },
  createdAt: time,
});

const wantedIssuerSchema = closedObject({ url, audience, mapping }, ['url', 'audience', 'mapping']);
type WantedIssuer = Json<typeof wantedIssuerSchema>;

export const issuerRoutes = routeTable([
  {
    method: 'PUT',
    url: `${collection}/:i`,
    action: 'bursar:PutIssuer',
    summary: 'Trust an outside issuer of tokens, or change what it is trusted with.',
    body: wantedIssuerSchema,
    answer: issuer,
    run: async (call) => {
      // Its keys would be one more way to act as anybody here.
      refuseDelegated(call);
      const wanted = call.body as WantedIssuer;
      const [tenant, issuerName] = [param(call, 't'), checkName(param(call, 'i'))];
      checkIssuerUrl(wanted.url);
      const pathPrefix = canonicalPathPrefix(wanted.mapping.pathPrefix);
      return {
        change: {
          ...wanted,
          kind: 'putIssuer',
          tenant,
          name: issuerName,
          mapping: { ...wanted.mapping, pathPrefix },
          byOperator: call.who.role === 'operator',
        },
        answer: () => showIssuer(call),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListIssuers',
    summary: `List the issuers that a tenant trusts, by name: at most ${issuersPerTenantMax}.`,
    answer: answerObject({ issuers: { type: 'array', items: issuer } }),
    run: async (call) => {
      await checkPlace(call);
      const { deps } = call;
      const entries = await listIssuers(deps.read, param(call, 't'));
      return { answer: { issuers: entries.map((entry) => show(deps, entry)) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:i`,
    action: 'bursar:GetIssuer',
    summary: 'Show an issuer that a tenant trusts.',
    answer: issuer,
    run: async (call) => ({ answer: await showIssuer(call) }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:i`,
    action: 'bursar:DeleteIssuer',
    summary: 'Trust an issuer no longer; its tokens are refused at once.',
    run: async (call) => ({
      change: { kind: 'deleteIssuer', tenant: param(call, 't'), name: param(call, 'i') },
    }),
  },
]);

function checkName(text: string): string {
  if (isName(text)) return text;
  const message = notTheName(text, 'an issuer');
  throw new Refusal('InvalidInput', { message, fields: { field: 'params.i' } });
}

async function showIssuer(call: Call): Promise<object> {
  const entry = await readIssuer(call.deps.read, param(call, 't'), param(call, 'i'));
  return entry ? show(call.deps, entry) : refuseMissing(call, 'NoSuchIssuer');
}

function show({ outside }: NativeDeps, entry: IssuerEntry): object {
  return { ...showDated(entry), keys: outside.keysState(entry) };
}
