// The actions that rules can name: S3's by their IAM names, and `bursar:` ones for administration.
// Invariant: a name or wildcard that fits no action is refused when it is written, so that no rule
// waits forever for an action that is spelled in another way.
// Specification: "Actions, resources, and condition keys for Amazon S3" of the AWS service
// authorization reference; names are compared without regard to case, as in IAM.
import { RuleFault, show } from './rule-fault.ts';
import { matchesSegments, wildcardSegments } from './wildcards.ts';

const serviceActions = ['s3:ListAllMyBuckets'] as const;

const bucketActions = [
  's3:CreateBucket',
  's3:DeleteBucket',
  's3:DeleteBucketPolicy',
  's3:DeleteBucketWebsite',
  's3:GetAccelerateConfiguration',
  's3:GetAnalyticsConfiguration',
  's3:GetBucketAcl',
  's3:GetBucketCORS',
  's3:GetBucketLocation',
  's3:GetBucketLogging',
  's3:GetBucketNotification',
  's3:GetBucketObjectLockConfiguration',
  's3:GetBucketOwnershipControls',
  's3:GetBucketPolicy',
  's3:GetBucketPolicyStatus',
  's3:GetBucketPublicAccessBlock',
  's3:GetBucketRequestPayment',
  's3:GetBucketTagging',
  's3:GetBucketVersioning',
  's3:GetBucketWebsite',
  's3:GetEncryptionConfiguration',
  's3:GetIntelligentTieringConfiguration',
  's3:GetInventoryConfiguration',
  's3:GetLifecycleConfiguration',
  's3:GetMetricsConfiguration',
  's3:GetReplicationConfiguration',
  's3:ListBucket',
  's3:ListBucketMultipartUploads',
  's3:ListBucketVersions',
  's3:PutAccelerateConfiguration',
  's3:PutAnalyticsConfiguration',
  's3:PutBucketAcl',
  's3:PutBucketCORS',
  's3:PutBucketLogging',
  's3:PutBucketNotification',
  's3:PutBucketObjectLockConfiguration',
  's3:PutBucketOwnershipControls',
  's3:PutBucketPolicy',
  's3:PutBucketPublicAccessBlock',
  's3:PutBucketRequestPayment',
  's3:PutBucketTagging',
  's3:PutBucketVersioning',
  's3:PutBucketWebsite',
  's3:PutEncryptionConfiguration',
  's3:PutIntelligentTieringConfiguration',
  's3:PutInventoryConfiguration',
  's3:PutLifecycleConfiguration',
  's3:PutMetricsConfiguration',
  's3:PutReplicationConfiguration',
] as const;

const objectActions = [
  's3:AbortMultipartUpload',
  's3:BypassGovernanceRetention',
  's3:DeleteObject',
  's3:DeleteObjectTagging',
  's3:DeleteObjectVersion',
  's3:DeleteObjectVersionTagging',
  's3:GetObject',
  's3:GetObjectAcl',
  's3:GetObjectAttributes',
  's3:GetObjectLegalHold',
  's3:GetObjectRetention',
  's3:GetObjectTagging',
  's3:GetObjectTorrent',
  's3:GetObjectVersion',
  's3:GetObjectVersionAcl',
  's3:GetObjectVersionAttributes',
  's3:GetObjectVersionForReplication',
  's3:GetObjectVersionTagging',
  's3:GetObjectVersionTorrent',
  's3:InitiateReplication',
  's3:ListMultipartUploadParts',
  's3:ObjectOwnerOverrideToBucketOwner',
  's3:PutObject',
  's3:PutObjectAcl',
  's3:PutObjectLegalHold',
  's3:PutObjectRetention',
  's3:PutObjectTagging',
  's3:PutObjectVersionAcl',
  's3:PutObjectVersionTagging',
  's3:ReplicateDelete',
  's3:ReplicateObject',
  's3:ReplicateTags',
  's3:RestoreObject',
] as const;

/** What the native API asks for; its table of rights has a row for each. */
const tenantActions = [
  'bursar:CreateTenant',
  'bursar:ListTenants',
  'bursar:GetTenant',
  'bursar:UpdateTenant',
  'bursar:DeleteTenant',
  'bursar:CreatePrincipal',
  'bursar:ListPrincipals',
  'bursar:GetPrincipal',
  'bursar:UpdatePrincipal',
  'bursar:DeletePrincipal',
  'bursar:ListHoldings',
  'bursar:CreateGroup',
  'bursar:ListGroups',
  'bursar:GetGroup',
  'bursar:DeleteGroup',
  'bursar:CreateAccessKey',
  'bursar:ListAccessKeys',
  'bursar:GetAccessKey',
  'bursar:UpdateAccessKey',
  'bursar:DeleteAccessKey',
  'bursar:CreatePublicKey',
  'bursar:ListPublicKeys',
  'bursar:GetPublicKey',
  'bursar:UpdatePublicKey',
  'bursar:DeletePublicKey',
  'bursar:CreateToken',
  'bursar:ListTokens',
  'bursar:RevokeToken',
  'bursar:ReadChanges',
  'bursar:SearchRecords',
  'bursar:GetRequest',
  'bursar:ExportRecords',
  'bursar:EraseRecords',
  'bursar:GetReceipt',
  'bursar:GetLog',
  'bursar:ListUsage',
  'bursar:GetUsage',
  'bursar:PutLimit',
  'bursar:ListLimits',
  'bursar:GetLimit',
  'bursar:DeleteLimit',
  'bursar:ReconcileLimit',
  'bursar:PutAlarmHook',
  'bursar:GetAlarmHook',
  'bursar:DeleteAlarmHook',
  'bursar:PutTarget',
  'bursar:ListTargets',
  'bursar:GetTarget',
  'bursar:DeleteTarget',
  'bursar:ResendToTarget',
  'bursar:CreateClass',
  'bursar:ListClasses',
  'bursar:GetClass',
  'bursar:DeleteClass',
  'bursar:PutIssuer',
  'bursar:ListIssuers',
  'bursar:GetIssuer',
  'bursar:DeleteIssuer',
  'bursar:PutGrant',
  'bursar:ListGrants',
  'bursar:GetGrant',
  'bursar:DeleteGrant',
  'bursar:PutMount',
  'bursar:ListMounts',
  'bursar:GetMount',
  'bursar:DeleteMount',
  'bursar:PutOwnMount',
  'bursar:ListOwnMounts',
  'bursar:GetOwnMount',
  'bursar:DeleteOwnMount',
  'bursar:ListAliases',
  'bursar:CreateSnapshot',
  'bursar:ListSnapshots',
  'bursar:GetSnapshot',
  'bursar:DeleteSnapshot',
  'bursar:GetBucket',
  'bursar:UpdateBucket',
  'bursar:ChangeOwner',
  'bursar:TransferUpload',
  'bursar:PutUndelete',
  'bursar:DeleteUndelete',
  'bursar:Undelete',
  'bursar:PurgeHeld',
  'bursar:ListLocks',
  'bursar:ListUses',
  'bursar:ListInventories',
  'bursar:RunInventory',
  'bursar:GetRecipe',
  'bursar:ListWork',
  'bursar:LeaseWork',
  'bursar:UpdateWork',
  'bursar:ListCopies',
  'bursar:RetryCopies',
  'bursar:Explain',
  'bursar:WhoAmI',
  'bursar:CreateShare',
  'bursar:ListShares',
  'bursar:RevokeShare',
  'bursar:TransferShare',
  'bursar:VerifyData',
  'bursar:ListKeys',
  'bursar:RotateKeys',
  'bursar:GetClock',
  'bursar:GetHealth',
  'bursar:ConfirmClock',
  'bursar:RotateLogKey',
  'bursar:RevokeLogKey',
  'bursar:ListStores',
  'bursar:DrillStore',
  'bursar:ListStoreCosts',
  'bursar:GetMetrics',
  'bursar:ListPriceBooks',
] as const;

export type S3Action =
  | (typeof serviceActions)[number]
  | (typeof bucketActions)[number]
  | (typeof objectActions)[number];
export type BursarAction = (typeof tenantActions)[number];
export type Action = S3Action | BursarAction;

/** What an action is about; `tenant` for all of `bursar:`. */
export type ActionLevel = 'service' | 'bucket' | 'object' | 'tenant';

interface Entry {
  name: Action;
  level: ActionLevel;
}

function entriesOf(level: ActionLevel, names: readonly Action[]): Entry[] {
  return names.map((name) => ({ name, level }));
}

const entries: readonly Entry[] = [
  ...entriesOf('service', serviceActions),
  ...entriesOf('bucket', bucketActions),
  ...entriesOf('object', objectActions),
  ...entriesOf('tenant', tenantActions),
];
const places: ReadonlyMap<Action, number> = new Map(
  entries.map(({ name }, place) => [name, place]),
);

/** Listings of a bucket, which have a prefix. */
const listings: ReadonlySet<Action> = new Set<Action>([
  's3:ListBucket',
  's3:ListBucketVersions',
  's3:ListBucketMultipartUploads',
]);

export function isListing(action: Action): boolean {
  return listings.has(action);
}

/** They are about all keys of a bucket that begin with a prefix, as listings are. */
const ofPrefixes: ReadonlySet<Action> = new Set<Action>([
  ...listings,
  'bursar:CreateSnapshot',
  'bursar:ListSnapshots',
  'bursar:GetSnapshot',
  'bursar:DeleteSnapshot',
  'bursar:Undelete',
]);

/** Are rules for a part of a bucket rules about this action of the native API? */
export function isOfPart(action: BursarAction): boolean {
  return ofPrefixes.has(action);
}

/** Is this the name of an action, in its own spelling? */
export function isAction(name: string): name is Action {
  return places.has(name as Action);
}

const yes = 49;

/**
 * A set of actions. A text of a 0 or 1 for each action is its smallest form that is fast to ask.
 */
export class ActionSet {
  readonly #marks: string;

  constructor(holds: (name: Action) => boolean) {
    this.#marks = entries.map(({ name }) => (holds(name) ? '1' : '0')).join('');
  }

  has(action: Action): boolean {
    return this.#marks.charCodeAt(places.get(action) as number) === yes;
  }

  /** Is one of them about all keys that begin with a prefix? */
  hasListing(): boolean {
    for (const action of ofPrefixes) if (this.has(action)) return true;
    return false;
  }

  /** Does one of them show something of an object? */
  hasReading(): boolean {
    return ofReading.some((action) => this.has(action));
  }
}

/** What shows something of one object. */
const ofReading: readonly Action[] = [
  's3:GetObject',
  's3:GetObjectVersion',
  's3:GetObjectTagging',
  's3:GetObjectVersionTagging',
];

const actionForm = /^(?:\*|(?:s3|bursar):[A-Za-z*?]{1,64})$/i;

/** The entries that a name, maybe with wildcards, fits. Throws RuleFault when there is none. */
function entriesFor(text: string): Entry[] {
  const fitting = () => {
    const segments = wildcardSegments(text.toLowerCase());
    return entries.filter(({ name }) => matchesSegments(segments, name.toLowerCase()));
  };
  const found = actionForm.test(text) ? fitting() : [];
  if (found.length === 0) throw new RuleFault(`Policy has invalid action: ${show(text)}`);
  return found;
}

/** The actions that these names mean, wildcards in them expanded. Throws RuleFault. */
export function parseActions(texts: readonly string[]): ActionSet {
  const found = new Set(texts.flatMap((text) => entriesFor(text).map(({ name }) => name)));
  return new ActionSet((name) => found.has(name));
}

/** What the actions of one name are about. Throws RuleFault. */
export function levelsOf(text: string): Set<ActionLevel> {
  return new Set(entriesFor(text).map(({ level }) => level));
}
