// The keys that conditions can ask for, and how each is read from a request. Invariant: a value is
// the one that the gateway acts on, never a second reading of the message; what is not there is
// undefined, which conditions tell from ''.
// Specification: "AWS global condition context keys" of the IAM user guide, "Condition keys for
// Amazon S3" of the service authorization reference. Names are compared without regard to case,
// except for what follows the slash of a tag's key.
import type { AccessRequest } from './access-request.ts';
import { isListing } from './actions.ts';
import { plainAddress } from './networks.ts';
import { RuleFault, show } from './rule-fault.ts';
import { principalArn } from './subjects.ts';

/** The answer of a key whose value must be fetched first. */
export const notLoaded = Symbol('not loaded');

export type ConditionValue = string | readonly string[] | undefined | typeof notLoaded;

export type ValueType = 'string' | 'number' | 'time' | 'bool' | 'address' | 'arn';

export interface ConditionKey {
  readonly name: string;
  readonly type: ValueType;
  /** Has any number of values, so that a condition must say whether it is about all or any. */
  readonly isList: boolean;
  read(request: AccessRequest): ConditionValue;
}

type Read = (request: AccessRequest) => string | undefined;

function key(name: string, type: ValueType, read: Read): ConditionKey {
  return { name, type, isList: false, read };
}

function ofHeader(name: string): ConditionKey {
  return key(`s3:${name}`, 'string', ({ facts }) => facts.headers[name]);
}

/** Query parameters that a listing has, and that mean nothing elsewhere. */
function ofListing(name: string, type: ValueType): ConditionKey {
  return key(`s3:${name}`, type, ({ action, facts }) => {
    if (!isListing(action)) return undefined;
    for (const [one, value] of facts.query) if (one === name) return value;
    return undefined;
  });
}

const dayMs = 24 * 3600 * 1000;

function ofRetention(
  name: string,
  type: ValueType,
  show: (untilMs: number, timeMs: number) => string,
): ConditionKey {
  return key(`s3:object-lock-${name}`, type, ({ facts: { lock, timeMs } }) => {
    const untilMs = lock?.retention?.untilMs;
    return untilMs === undefined ? undefined : show(untilMs, timeMs);
  });
}

/** A condition that the gateway keeps: of a write that makes an object, or of a deletion. */
function ofCondition(name: string): ConditionKey {
  return key(`s3:${name}`, 'string', (request) => {
    const isKept = deletions.has(request.action) || makesObject(request) === true;
    return isKept ? request.facts.headers[name] : undefined;
  });
}

const deletions: ReadonlySet<string> = new Set(['s3:DeleteObject', 's3:DeleteObjectVersion']);

/** Does the request make an object? To begin an upload or to send a part does not. */
function makesObject({ action, facts }: AccessRequest): boolean | undefined {
  if (action !== 's3:PutObject') return undefined;
  return !facts.query.some(([name]) => name === 'uploads' || name === 'partNumber');
}

const headerNames = [
  'x-amz-acl',
  'x-amz-content-sha256',
  'x-amz-grant-full-control',
  'x-amz-grant-read',
  'x-amz-grant-read-acp',
  'x-amz-grant-write',
  'x-amz-grant-write-acp',
  'x-amz-metadata-directive',
  'x-amz-server-side-encryption',
  'x-amz-server-side-encryption-aws-kms-key-id',
  'x-amz-server-side-encryption-customer-algorithm',
  'x-amz-storage-class',
  'x-amz-website-redirect-location',
] as const;

const fixedKeys: readonly ConditionKey[] = [
  key('aws:SourceIp', 'address', ({ facts }) => plainAddress(facts.sourceAddress)),
  key('aws:CurrentTime', 'time', ({ facts }) => new Date(facts.timeMs).toISOString()),
  key('aws:EpochTime', 'time', ({ facts }) => String(Math.floor(facts.timeMs / 1000))),
  key('aws:SecureTransport', 'bool', ({ facts }) => String(facts.isSecure)),
  key('aws:UserAgent', 'string', ({ facts }) => facts.headers['user-agent']),
  key('aws:Referer', 'string', ({ facts }) => facts.headers.referer),
  key('aws:PrincipalArn', 'arn', ({ who }) => (who ? principalArn(who) : undefined)),
  key('aws:PrincipalAccount', 'string', ({ who }) => who?.tenant),
  key('aws:PrincipalType', 'string', ({ who }) => (who ? 'User' : 'Anonymous')),
  key('aws:username', 'string', ({ who }) => who?.name),
  key('aws:userid', 'string', ({ who }) => who?.id ?? 'anonymous'),
  ofListing('prefix', 'string'),
  ofListing('delimiter', 'string'),
  ofListing('max-keys', 'number'),
  key('s3:VersionId', 'string', ({ facts }) => facts.versionId ?? undefined),
  key('s3:x-amz-copy-source', 'string', ({ facts }) => facts.copySource ?? undefined),
  key('s3:authType', 'string', ({ facts }) => facts.authentication?.type),
  key('s3:signatureversion', 'string', ({ facts }) => facts.authentication?.version),
  key('s3:signatureAge', 'number', ({ facts: { authentication, timeMs } }) =>
    authentication ? String(timeMs - authentication.signedAtMs) : undefined,
  ),
  key('s3:object-lock-mode', 'string', ({ facts }) => facts.lock?.retention?.mode),
  ofRetention('retain-until-date', 'time', (untilMs) => new Date(untilMs).toISOString()),
  // Part of a day is one: who may lock for 10 days may not for 10 and a half.
  ofRetention('remaining-retention-days', 'number', (untilMs, timeMs) =>
    String(Math.ceil((untilMs - timeMs) / dayMs)),
  ),
  key('s3:object-lock-legal-hold', 'string', ({ facts: { lock } }) =>
    lock?.legalHold === undefined ? undefined : lock.legalHold ? 'ON' : 'OFF',
  ),
  ofCondition('if-match'),
  ofCondition('if-none-match'),
  key('s3:ObjectCreationOperation', 'bool', (request) => makesObject(request)?.toString()),
  ...headerNames.map(ofHeader),
  {
    name: 's3:RequestObjectTagKeys',
    type: 'string',
    isList: true,
    read: ({ facts }) => [...facts.requestTags.keys()],
  },
];

const byLowerName: ReadonlyMap<string, ConditionKey> = new Map(
  fixedKeys.map((one) => [one.name.toLowerCase(), one]),
);

const tagForm = /^s3:(?:(ExistingObjectTag)|RequestObjectTag)\/(.{1,128})$/iu;

/** The key of this name. Throws RuleFault when there is none. */
export function conditionKey(name: string): ConditionKey {
  const fixed = byLowerName.get(name.toLowerCase());
  if (fixed) return fixed;
  const [, existing, tag] = tagForm.exec(name) ?? [];
  if (tag === undefined) throw new RuleFault(`Policy has an invalid condition key: ${show(name)}`);
  if (existing === undefined) return key(name, 'string', ({ facts }) => facts.requestTags.get(tag));
  return {
    name,
    type: 'string',
    isList: false,
    read: ({ facts }) => (facts.objectTags ? facts.objectTags.get(tag) : notLoaded),
  };
}
