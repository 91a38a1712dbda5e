// For each kind of change: one that can be made, and what a state must say differently after it.
// The list is complete by its type, so a new kind of change must say here what becomes of memory by
// it.
import { randomBytes } from 'node:crypto';
import type { AccessRequest } from '#bursar/authz/grants/access-request.js';
import type { Grant } from '#bursar/authz/grants/grant.js';
import { accessKeyContext } from '#bursar/authz/key-rows.js';
import { newTenantKey } from '#bursar/authz/tenant-keys.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import type { BucketRow } from '#bursar/catalog/buckets.js';
import { principalId } from '#bursar/core/principal.js';
import { Sealer } from '#bursar/core/sealing.js';
import type { CorsRules } from '#bursar/gateway/s3/buckets/cors.js';
import type { IdentityChange } from '#bursar/ledger/commands/identities.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import { keyring } from '../ledger/fixture.ts';
import type { Seen } from './seen-state.ts';

export interface Scenario {
  /** Says which of several of a kind it is. */
  name?: string;
  /** What is committed before, by those who are there: `one/alice`, with her bucket `data`. */
  given?: readonly Change[];
  change: Change;
  /** What requests find. Whatever is read for it is kept as requests would have it kept. */
  look: (seen: Seen) => unknown;
}

type Scenarios = { readonly [K in Change['kind']]: readonly Scenario[] | null };

const sealer = new Sealer(keyring);
const hour = 3_600_000;
const alice = { tenant: 'one', principal: 'alice' } as const;
const bob: Change = {
  ...{ kind: 'createPrincipal', tenant: 'one', name: 'bob' },
  ...{ principalKind: 'person', role: 'member', groups: [] },
};
const group: Change = { kind: 'createGroup', tenant: 'one', name: 'shifters' };
const tenant: Change = { kind: 'createTenant', name: 'two', membersCreateBuckets: true };
const keyedTenant = { ...tenant, sealedKey: newTenantKey(sealer, 'two') } as Change;
/** A SigV4A key. */
const signer = generatePrivateKey('ES256').publicKey;
const signerId = 'AKIASIGNER';

function accessKey(id: string): Extract<IdentityChange, { kind: 'createAccessKey' }> {
  const sealedSecret = sealer.seal(randomBytes(30), accessKeyContext('one', 'alice', id));
  return { kind: 'createAccessKey', ...alice, id, sealedSecret };
}

function rootKey(id: string): Change {
  const context = accessKeyContext('default', 'admin', id);
  return { kind: 'putRootKey', id, sealedSecret: sealer.seal(randomBytes(30), context) };
}

/** A token that was asked for with a key. */
function token(id: string, accessKeyId: string, of: typeof alice | typeof root = alice): Change {
  const issuedMs = Date.now();
  const details = {
    ...{ scope: null, signer: null, holder: null, depth: 0, depthMax: 0 },
    ...{ issuedMs, notBeforeMs: issuedMs },
  };
  const expiresMs = issuedMs + hour;
  return { kind: 'addToken', id, ...of, accessKeyId, details, issuedMs, expiresMs };
}

const root = { tenant: 'default', principal: 'admin' } as const;

const enrolled: Change = {
  ...{ kind: 'createPublicKey', ...alice, thumbprint: signer.thumbprint },
  ...{ jwk: JSON.stringify(signer.jwk), proof: 'a.b', purpose: 'sigv4a', accessKeyId: signerId },
};

function grant(name: string, bucket: string, of = 'one'): Change {
  const subjects = ['anyone'];
  const rule: Grant = { name, effect: 'allow', subjects, actions: ['s3:GetObject'], bucket };
  return { kind: 'putGrant', tenant: of, isByAdmin: true, grant: rule };
}

function mount(name: string, of = 'one'): Change {
  return { kind: 'putMount', tenant: of, name, bucketTenant: 'elsewhere', bucket: 'b' };
}

function ownMount(name: string, principal = 'alice'): Change {
  return {
    ...{ kind: 'putOwnMount', tenant: 'one', principal, name, isByAdmin: false },
    ...{ bucketTenant: 'elsewhere', bucket: 'b' },
  };
}

const issuer: Change = {
  ...{ kind: 'putIssuer', tenant: 'one', name: 'sso', url: 'https://sso.example.org' },
  ...{ audience: 'https://s3.example.org/one', byOperator: true },
  mapping: { pathPrefix: '/', principals: {}, groups: {}, defaultPrincipal: null },
};

const storageClass: Extract<Change, { kind: 'createClass' }> = {
  ...{ kind: 'createClass', tenant: 'one', name: 'derived' },
  definition: {
    aliases: ['ONEZONE_IA'],
    durability: { legs: [{ store: 'disk1' }], ack: 1, repairHours: 24 },
    availability: { answer: 'first', maxOfflineHoursPerMonth: 0 },
    access: 'online',
    restoreWithinHours: null,
    loss: 'report',
    minimum: { days: 0, bytes: 0 },
  },
};

const corsDocument = JSON.stringify([
  { allowedMethods: ['GET'], allowedOrigins: ['*'], allowedHeaders: [], exposeHeaders: [] },
]);
const lifecycleDocument = JSON.stringify({
  rules: [{ id: 'r', isEnabled: true, filter: {}, expiration: { days: 1 } }],
  transitionMinimum: 'varies_by_storage_class',
});

const snapshot: Change = {
  ...{ kind: 'createSnapshot', bucketId: 1, name: 's', prefix: '', expiresMs: null, lock: null },
};

type Setting = Extract<Change, { kind: 'putBucketSetting' }>;
function setting(name: Setting['name'], document: string | null): Change {
  return { kind: 'putBucketSetting', bucketId: 1, name, document };
}

const bucketRow: BucketRow = {
  ...{ id: 7, tenant: 'one', name: 'restored', owner: 'alice', createdMs: 1, store: 1 },
  ...{ policy: null, versioning: 'Enabled', objectLock: null, publicAccess: null },
  ...{ ownership: null, recordReads: null },
};
const windowDocument = JSON.stringify({ windowMs: 60_000, sinceMs: 1 });
const encryptionDocument = JSON.stringify({
  ...{ algorithm: 'aws:kms', kmsKeyId: null, bucketKeyEnabled: true },
});
const notificationDocument = JSON.stringify({ by: 'one/alice', rules: [] });
const websiteDocument = JSON.stringify({ index: 'index.html' });
const restoredSettings = {
  notification: JSON.stringify({ by: 'one/alice', since: 1, rules: [] }),
  cors: corsDocument,
  encryption: encryptionDocument,
  lifecycle: lifecycleDocument,
  undelete: windowDocument,
  website: websiteDocument,
  metrics: '[{"id":"a"}]',
};

const lookAtKey =
  (id: string) =>
  async ({ state }: Seen) =>
    (await state.directory.findAccessKey(id))?.id;
const lookAtActor =
  (name: string) =>
  async ({ state }: Seen) => {
    const actor = await state.directory.findActor(principalId('one', name));
    return actor && [actor.principal, actor.subjects];
  };
const lookAtBucket =
  (name: string) =>
  ({ state }: Seen) =>
    state.buckets.find('one', name);
const lookAtRevoked =
  (id: string) =>
  ({ state }: Seen) =>
    state.revocations.has([id]);
const both =
  (...looks: Scenario['look'][]) =>
  (seen: Seen) =>
    Promise.all(looks.map((look) => look(seen)));
const lookAtCors =
  (id: number) =>
  async ({ state }: Seen) =>
    ((await state.cors.find(id)) as CorsRules | null)?.rules;
const lookAtLifecycle =
  (id: number) =>
  ({ state }: Seen) =>
    state.lifecycle.find(id);
const lookAtEncryption =
  (id: number) =>
  ({ state }: Seen) =>
    state.encryption.find(id);
const lookAtNotification =
  (id: number) =>
  ({ state }: Seen) =>
    state.notifications.find(id);
const lookAtTenantKey =
  (of: string) =>
  ({ state }: Seen) => {
    try {
      return state.keyring.cipherKey(of, 1).toString('hex');
    } catch {
      return 'there is none';
    }
  };
const lookAtWindow =
  (id: number) =>
  ({ state }: Seen) =>
    state.windows.find(id);
const lookAtWebsite =
  (id: number) =>
  ({ state }: Seen) =>
    state.websites.find(id);
const lookAtMetrics =
  (id: number) =>
  ({ state }: Seen) =>
    state.metricsConfigurations.find(id);
const lookAtMount =
  (of: string) =>
  ({ state }: Seen) =>
    state.mounts.find(of, 'm');
const lookAtOwnMount =
  (of: string) =>
  ({ state }: Seen) =>
    state.mounts.findOwn(of, 'm');
const lookAtSnapshot = ({ state }: Seen) =>
  state.snapshots.find({ tenant: 'one', bucket: 'data', id: 1 }, 's');
const lookAtIssuer = ({ state }: Seen) => state.outside.stateOf({ tenant: 'one', name: 'sso' });
const lookAtClass = ({ state }: Seen) => [
  state.classes.named('one', 'derived'),
  state.classes.aliased('one', 'ONEZONE_IA'),
];
const lookAtMode =
  (of: string) =>
  ({ state }: Seen) =>
    state.readRecording.tenants.get(of);
const lookAtLimit = ({ leaseHolder, rates }: Seen) => [
  leaseHolder.limited.has('tenant:one'),
  rates.isEmpty,
];

/** The names of the grants that a decision about a bucket of a tenant looks at. */
const lookAtGrants =
  (of: string, ...buckets: string[]) =>
  ({ state }: Seen) =>
    buckets.map((bucket) => {
      const request = {
        ...{ who: null, subjects: [], action: 's3:GetObject', tenant: of, bucket },
        ...{ owner: null, key: 'k', listPrefix: null, facts: {} },
      } as unknown as AccessRequest;
      return state.grants.index.propose(request).map(({ name }) => name);
    });

export const scenarios: Scenarios = {
  none: null,
  createBucket: [
    {
      change: { kind: 'createBucket', tenant: 'one', name: 'new', owner: 'alice', store: 1 },
      look: lookAtBucket('new'),
    },
  ],
  deleteBucket: [{ change: { kind: 'deleteBucket', bucketId: 1 }, look: lookAtBucket('data') }],
  putBucketPolicy: [
    {
      change: { kind: 'putBucketPolicy', bucketId: 1, policy: '{}' },
      look: lookAtBucket('data'),
    },
  ],
  setVersioning: [
    {
      change: { kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' },
      look: lookAtBucket('data'),
    },
  ],
  putBucketSetting: [
    {
      name: 'publicAccess',
      change: setting('publicAccess', '{"blockPublicPolicy":true}'),
      look: lookAtBucket('data'),
    },
    {
      name: 'ownership',
      change: setting('ownership', 'BucketOwnerEnforced'),
      look: lookAtBucket('data'),
    },
    {
      name: 'objectLock',
      given: [{ kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' }],
      change: setting('objectLock', '{}'),
      look: lookAtBucket('data'),
    },
    { name: 'cors', change: setting('cors', corsDocument), look: lookAtCors(1) },
    {
      name: 'encryption',
      change: setting('encryption', encryptionDocument),
      look: lookAtEncryption(1),
    },
    {
      name: 'lifecycle',
      change: setting('lifecycle', lifecycleDocument),
      look: lookAtLifecycle(1),
    },
    {
      name: 'notification',
      change: setting('notification', notificationDocument),
      look: lookAtNotification(1),
    },
    { name: 'website', change: setting('website', websiteDocument), look: lookAtWebsite(1) },
    {
      name: 'metrics',
      change: setting('metrics', JSON.stringify({ id: 'a', config: { id: 'a' } })),
      look: lookAtMetrics(1),
    },
  ],
  setReadPayer: [
    {
      change: {
        ...{ kind: 'setReadPayer', tenant: 'one', name: 'data', bucketId: 1 },
        readsPaidBy: 'tenant',
      },
      look: lookAtBucket('data'),
    },
  ],
  setRecordReads: [
    {
      change: { kind: 'setRecordReads', tenant: 'one', name: 'data', recordReads: 'strict' },
      look: lookAtBucket('data'),
    },
  ],
  changeOwner: [
    {
      given: [bob],
      change: { kind: 'changeOwner', tenant: 'one', name: 'data', from: 'alice', to: 'bob' },
      look: lookAtBucket('data'),
    },
  ],
  restoreBucket: [
    {
      change: { kind: 'restoreBucket', bucket: bucketRow, settings: restoredSettings },
      look: both(
        lookAtBucket('restored'),
        lookAtCors(7),
        lookAtLifecycle(7),
        lookAtWindow(7),
        lookAtEncryption(7),
        lookAtNotification(7),
        lookAtWebsite(7),
        lookAtMetrics(7),
      ),
    },
  ],
  restoreSettings: [
    {
      given: [{ kind: 'restoreBucket', bucket: bucketRow, settings: {} }],
      change: {
        kind: 'restoreSettings',
        bucket: { ...bucketRow, policy: '{}' },
        settings: restoredSettings,
      },
      look: both(
        lookAtBucket('restored'),
        lookAtCors(7),
        lookAtLifecycle(7),
        lookAtWindow(7),
        lookAtEncryption(7),
        lookAtNotification(7),
        lookAtWebsite(7),
        lookAtMetrics(7),
      ),
    },
  ],
  putObject: null,
  copyObject: null,
  renameObject: null,
  deleteObject: null,
  amendVersion: null,
  createUpload: null,
  putPart: null,
  completeUpload: null,
  abortUpload: null,
  transferUpload: null,
  suspectCopies: null,
  repairCopies: null,
  loseVersion: null,
  recoverVersion: null,
  moveVersion: null,
  beginRestore: null,
  finishRestore: null,
  endRestore: null,
  restoreVersion: null,
  restoreAttributes: null,
  restoreEnd: null,
  restoreMove: null,
  setUndelete: [
    {
      change: { kind: 'setUndelete', bucketId: 1, windowMs: 60_000 },
      look: lookAtWindow(1),
    },
  ],
  createSnapshot: [{ change: snapshot, look: lookAtSnapshot }],
  restoreSnapshot: [
    {
      change: { ...(snapshot as object), kind: 'restoreSnapshot', createdMs: 1 } as Change,
      look: lookAtSnapshot,
    },
  ],
  deleteSnapshot: [
    {
      given: [snapshot],
      change: { kind: 'deleteSnapshot', bucketId: 1, name: 's' },
      look: lookAtSnapshot,
    },
  ],
  purgeHeld: null,
  releaseHeld: null,
  countStored: null,
  restoreIdentity: [
    {
      change: {
        kind: 'restoreIdentity',
        changes: [grant('one', 'data') as Extract<Change, { kind: 'putGrant' }>],
        madeMs: 1,
      },
      look: lookAtGrants('one', 'data'),
    },
  ],
  useUpShare: null,
  addRootKey: [
    {
      change: { kind: 'addRootKey', key: { epoch: 2, key: Buffer.alloc(32, 9) } },
      look: ({ state }) => state.keyring.currentEpoch,
    },
  ],
  rotateLogKey: null,
  revokeLogKey: null,
  drillStore: null,
  confirmClock: [
    { change: { kind: 'confirmClock', stepMs: 0 }, look: ({ clock }) => clock.stepMs !== 0 },
  ],
  eraseRecords: null,
  setLimits: [
    {
      change: {
        ...{ kind: 'setLimits', account: 'tenant:one' },
        limits: { storedBytes: { total: 1000 }, rate: { requests: 5 } },
      },
      look: lookAtLimit,
    },
    {
      name: 'none any more',
      given: [
        { kind: 'setLimits', account: 'tenant:one', limits: { storedBytes: { total: 1000 } } },
      ],
      change: { kind: 'setLimits', account: 'tenant:one', limits: null },
      look: lookAtLimit,
    },
  ],
  forgetLost: null,
  setAlarmHook: null,
  createTenant: [
    {
      change: { ...tenant, kind: 'createTenant', recordReads: 'aggregate' } as Change,
      look: lookAtMode('two'),
    },
    {
      name: 'with its key',
      change: keyedTenant,
      look: lookAtTenantKey('two'),
    },
  ],
  createTenantKey: [
    {
      given: [tenant],
      change: { kind: 'createTenantKey', name: 'two', sealedKey: newTenantKey(sealer, 'two') },
      look: lookAtTenantKey('two'),
    },
  ],
  updateTenant: [
    {
      name: 'how reads are recorded',
      change: { kind: 'updateTenant', name: 'one', recordReads: 'strict' },
      look: lookAtMode('one'),
    },
    {
      name: 'who creates buckets',
      change: { kind: 'updateTenant', name: 'one', membersCreateBuckets: false },
      look: lookAtActor('alice'),
    },
  ],
  deleteTenant: [
    {
      given: [keyedTenant, grant('g', 'x', 'two'), mount('m', 'two')],
      change: { kind: 'deleteTenant', name: 'two' },
      look: both(lookAtMount('two'), lookAtGrants('two', 'x'), lookAtTenantKey('two')),
    },
  ],
  createPrincipal: null,
  updatePrincipal: [
    {
      given: [bob],
      change: { kind: 'updatePrincipal', tenant: 'one', name: 'bob', active: false },
      look: lookAtActor('bob'),
    },
  ],
  deletePrincipal: [
    {
      given: [bob, ownMount('m', 'bob')],
      change: { kind: 'deletePrincipal', tenant: 'one', name: 'bob' },
      look: both(lookAtActor('bob'), lookAtOwnMount('one/bob')),
    },
  ],
  createGroup: null,
  deleteGroup: [
    {
      given: [
        group,
        { kind: 'updatePrincipal', tenant: 'one', name: 'alice', groups: ['shifters'] },
      ],
      change: { kind: 'deleteGroup', tenant: 'one', name: 'shifters' },
      look: lookAtActor('alice'),
    },
  ],
  createAccessKey: [{ change: accessKey('AK'), look: lookAtKey('AK') }],
  updateAccessKey: [
    {
      given: [accessKey('AK'), token('t', 'AK')],
      change: { kind: 'updateAccessKey', ...alice, id: 'AK', active: false },
      look: both(lookAtKey('AK'), lookAtRevoked('t')),
    },
  ],
  deleteAccessKey: [
    {
      given: [accessKey('AK'), token('t', 'AK')],
      change: { kind: 'deleteAccessKey', ...alice, id: 'AK' },
      look: both(lookAtKey('AK'), lookAtRevoked('t')),
    },
  ],
  putRootKey: [
    {
      given: [rootKey('FIRST'), token('t', 'FIRST', root)],
      change: rootKey('SECOND'),
      look: both(lookAtKey('FIRST'), lookAtRevoked('t')),
    },
    {
      name: 'with the key of the tenant',
      change: {
        ...(rootKey('FIRST') as Extract<IdentityChange, { kind: 'putRootKey' }>),
        sealedTenantKey: newTenantKey(sealer, 'default'),
      },
      look: both(lookAtKey('FIRST'), lookAtTenantKey('default')),
    },
  ],
  createPublicKey: [{ change: enrolled, look: lookAtKey(signerId) }],
  updatePublicKey: [
    {
      given: [enrolled, token('t', signerId)],
      change: {
        ...{ kind: 'updatePublicKey', ...alice, thumbprint: signer.thumbprint },
        active: false,
      },
      look: both(lookAtKey(signerId), lookAtRevoked('t')),
    },
  ],
  deletePublicKey: [
    {
      given: [enrolled, token('t', signerId)],
      change: { kind: 'deletePublicKey', ...alice, thumbprint: signer.thumbprint },
      look: both(lookAtKey(signerId), lookAtRevoked('t')),
    },
  ],
  putGrant: [
    { name: 'new', change: grant('g', 'a'), look: lookAtGrants('one', 'a', 'b') },
    {
      name: 'another of its name',
      given: [grant('g', 'a')],
      change: grant('g', 'b'),
      look: lookAtGrants('one', 'a', 'b'),
    },
  ],
  deleteGrant: [
    {
      given: [grant('g', 'a')],
      change: { kind: 'deleteGrant', tenant: 'one', isByAdmin: true, name: 'g' },
      look: lookAtGrants('one', 'a'),
    },
  ],
  putMount: [{ change: mount('m'), look: lookAtMount('one') }],
  deleteMount: [
    {
      given: [mount('m')],
      change: { kind: 'deleteMount', tenant: 'one', name: 'm' },
      look: lookAtMount('one'),
    },
  ],
  putOwnMount: [{ change: ownMount('m'), look: lookAtOwnMount('one/alice') }],
  deleteOwnMount: [
    {
      given: [ownMount('m')],
      change: { kind: 'deleteOwnMount', ...alice, name: 'm' },
      look: lookAtOwnMount('one/alice'),
    },
  ],
  putTarget: null,
  deleteTarget: null,
  resendToTarget: null,
  putIssuer: [{ change: issuer, look: lookAtIssuer }],
  deleteIssuer: [
    {
      given: [issuer],
      change: { kind: 'deleteIssuer', tenant: 'one', name: 'sso' },
      look: lookAtIssuer,
    },
  ],
  createClass: [{ change: storageClass, look: lookAtClass }],
  deleteClass: [
    {
      given: [storageClass],
      change: { kind: 'deleteClass', tenant: 'one', name: 'derived' },
      look: lookAtClass,
    },
  ],
  addToken: null,
  addShare: null,
  transferShare: null,
  revokeToken: [
    {
      given: [accessKey('AK'), token('t', 'AK')],
      change: { kind: 'revokeToken', id: 't', ...alice, expiresMs: null },
      look: lookAtRevoked('t'),
    },
  ],
};
