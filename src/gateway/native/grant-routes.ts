// Native API: the grants of a tenant. What a grant says is checked where it means something
// (authz/grants/grant.ts); the schemas here only describe it.

import { type Grant, parseGrant } from '../../authz/grants/grant.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { granteesOf } from '../../state/alias-book.ts';
import type { GrantEntry } from '../../state/grant-book.ts';
import { warnOfNoBucket, warnOfNobody } from '../named-subjects.ts';
import { isBucketName } from '../s3/bucket-lookup.ts';
import { administers } from './rights.ts';
import {
  type Call,
  checkPlace,
  nameOf,
  nextOf,
  pageOf,
  param,
  refuseMissing,
  routeTable,
} from './route.ts';
import { answerPage, closedObject, name, pageQuery, text, time } from './schemas.ts';

const collection = '/_/v1/tenants/:t/grants';

const texts = (description: string) =>
  ({
    type: 'array',
    items: { type: 'string' },
    description,
  }) as const;

const rule = {
  effect: { type: 'string', enum: ['allow', 'deny'], description: 'Deny wins.' },
  subjects: texts(
    'Whom it concerns: `principal:TENANT/NAME`, `group:TENANT/NAME`, `tenant:TENANT`, `anyone`.',
  ),
  actions: texts('`s3:GetObject`, `s3:*`, `bursar:ListPrincipals`'),
  bucket: text('Absent: all buckets, and what is about none.'),
  prefix: text('A place in the bucket, and all below it.'),
  key: text('One object, instead of `prefix`.'),
  alias: text(
    'Under this name, `TENANT-…`, the subjects of other tenants see the bucket, where theirs has ' +
      'nothing else of the name.',
  ),
  conditions: {
    type: 'object',
    additionalProperties: true,
    description: "IAM's: operator, condition key, values.",
  },
} as const;

const grant = {
  type: 'object',
  required: ['tenant', 'name', 'effect', 'subjects', 'actions', 'createdAt'],
  properties: { tenant: name, name, ...rule, createdAt: time },
} as const;
const warnings = texts(
  'Whom it names that is nobody, and that its bucket is not there, as far as the caller may ' +
    'know. In words.',
);
const checkedGrant = {
  ...grant,
  required: [...grant.required, 'warnings'],
  properties: { ...grant.properties, warnings },
} as const;

export const grantRoutes = routeTable([
  {
    method: 'PUT',
    url: `${collection}/:grant`,
    action: 'bursar:PutGrant',
    summary: 'Make a grant, or replace the one of this name. It counts from the next request on.',
    query: {
      replaces: {
        ...text('Refuse unless the grant is still the one that was made then.'),
        format: 'date-time',
      },
    },
    body: closedObject(rule, ['effect', 'subjects', 'actions']),
    answer: checkedGrant,
    run: async (call) => {
      const [tenant, grantName] = [param(call, 't'), param(call, 'grant')];
      const wanted = parseGrant({ ...(call.body as object), name: grantName });
      checkAlias(tenant, wanted);
      const isByAdmin = administers(call.who, tenant);
      const { replaces } = call.query;
      const condition = replaces === undefined ? {} : { replacesMs: Date.parse(replaces) };
      return {
        change: { kind: 'putGrant', tenant, isByAdmin, grant: wanted, ...condition },
        answer: () => showGrant(call),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListGrants',
    summary: "List a tenant's grants, by name.",
    query: pageQuery,
    answer: answerPage('grants', grant),
    run: async (call) => {
      await checkPlace(call);
      const page = pageOf(call);
      const entries = await call.deps.grants.list(param(call, 't'), page);
      // A page of the longest is megabytes.
      const pace = new Pace();
      const shown: string[] = [];
      for (const entry of entries) {
        shown.push(JSON.stringify(show(entry)));
        if (pace.isDue) await pace.wait();
      }
      const next = JSON.stringify(nextOf(page, entries, nameOf));
      return { answer: `{"grants":[${shown.join(',')}],"next":${next}}` };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:grant`,
    action: 'bursar:GetGrant',
    summary: 'Show a grant.',
    answer: checkedGrant,
    run: async (call) => ({ answer: await showGrant(call) }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:grant`,
    action: 'bursar:DeleteGrant',
    summary: 'Delete a grant. It counts no more from the next request on.',
    run: async (call) => {
      const [tenant, grantName] = [param(call, 't'), param(call, 'grant')];
      const isByAdmin = administers(call.who, tenant);
      return {
        change: { kind: 'deleteGrant', tenant, isByAdmin, name: grantName },
      };
    },
  },
]);

/** Throws `Refusal` InvalidInput for an alias that could mean what is not this tenant's. */
function checkAlias(tenant: string, { alias, subjects }: Grant): void {
  if (alias === undefined) return;
  const refuse = (message: string): never => {
    throw new Refusal('InvalidInput', { message, fields: { field: 'body.alias' } });
  };
  if (!isBucketName(alias) || !alias.startsWith(`${tenant}-`)) {
    refuse(`An alias is a bucket's name that begins with ${tenant}-.`);
  }
  if (granteesOf(tenant, { subjects }).size === 0) {
    refuse('An alias is for people of other tenants, and the grant names none.');
  }
}

async function showGrant(call: Call): Promise<object> {
  const entry = await call.deps.grants.read(param(call, 't'), param(call, 'grant'));
  if (!entry) return refuseMissing(call, 'NoSuchGrant');
  const { directory, buckets } = call.deps;
  const { tenant, grant: written } = entry;
  const noBucket = await warnOfNoBucket(buckets, call.who, { tenant, bucket: written.bucket });
  const nobody = await warnOfNobody(directory, call.who, written.subjects);
  return { ...show(entry), warnings: [...noBucket, ...nobody] };
}

function show({ tenant, grant: written, createdMs }: GrantEntry): object {
  return { tenant, ...written, createdAt: isoTime(createdMs) };
}
