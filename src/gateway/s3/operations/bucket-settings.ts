// Settings of a bucket that are documents, set and removed as a whole. Each has three operations,
// which differ in their names and in what the document says.
import { arnOf, listTargets } from '../../../audit/changes/targets.ts';
import { recordedLargeChange } from '../../../audit/recorded-change.ts';
import type { S3Action } from '../../../authz/grants/actions.ts';
import { type PutBucketSetting, payerDocument } from '../../../catalog/bucket-changes.ts';
import type { BucketEncryption } from '../../../catalog/bucket-encryption.ts';
import { readSetting } from '../../../catalog/buckets.ts';
import {
  type LifecycleConfig,
  type TransitionMinimum,
  type TransitionTarget,
  transitionMinimums,
} from '../../../catalog/lifecycle.ts';
import type { AskedNotifications } from '../../../catalog/notifications.ts';
import type { Tags } from '../../../catalog/versions.ts';
import type { Website } from '../../../catalog/website.ts';
import { type ErrorCode, Refusal } from '../../../core/errors.ts';
import {
  bucketTagsMax,
  corsBodyBytesMax,
  lifecycleBodyBytesMax,
  notificationBodyBytesMax,
  websiteBodyBytesMax,
} from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import type { ReadPayer } from '../../../core/read-payer.ts';
import { emptyReply, largeXmlReply, type Reply, xmlReply } from '../../http/reply.ts';
import { onlyChildren, parseLargeXml, parseXml } from '../../http/xml.ts';
import { enforced, noControls, parseOwnership } from '../buckets/acl.ts';
import { type CorsRule, corsElements, parseCorsRules } from '../buckets/cors.ts';
import {
  defaultEncryption,
  encryptionElements,
  parseEncryption,
} from '../buckets/encryption-xml.ts';
import { lifecycleElements, parseLifecycle } from '../buckets/lifecycle-xml.ts';
import { notificationElements, parseNotificationRules } from '../buckets/notification-xml.ts';
import { blockOf, parsePublicAccess, publicAccessElements } from '../buckets/public-access.ts';
import { parsePayment } from '../buckets/requester-pays.ts';
import { parseWebsite, websiteElements } from '../buckets/website-xml.ts';
import { demandDigest, receiveDocument } from '../demanded-digest.ts';
import { parseTagging } from '../objects/object-attributes.ts';
import { readTransitionClass, shownClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

interface BucketSetting<T> {
  /** The names of its operations: Get…, Put… and Delete…. */
  operations: readonly [get: string, put: string, remove: string];
  /** `remove`: absent where it is as `write`. */
  actions: { read: S3Action; write: S3Action; remove?: S3Action };
  bodyBytesMax: number;
  /** What GET answers. Throws `Refusal` where nothing is set (`notSet`). */
  show(context: Reserved<'bucket'>): Promise<Reply>;
  /** Receives what PUT sets, and reads it. Throws `Refusal`. */
  receive(context: Reserved<'bucket'>): Promise<T>;
  /** What the catalog stores. `null`: it was removed. */
  store(value: T | null): Pick<PutBucketSetting, 'name' | 'document'>;
  /** What the record says of the change. */
  record(value: T | null): object;
  /** What PUT answers: 200 where this says nothing else. */
  answer?(value: T): Reply;
}

/** The operations that read, set and remove it. Removing what is not set succeeds. */
function bucketSetting<T>({
  operations: [getName, putName, removeName],
  actions: { read, write, remove = write },
  bodyBytesMax,
  show,
  receive,
  store,
  record,
  answer = () => emptyReply(200),
}: BucketSetting<T>): Record<'GET' | 'PUT' | 'DELETE', Operation<'bucket'>> {
  async function set(
    context: Reserved<'bucket'>,
    value: T | null,
    { status }: Reply,
  ): Promise<void> {
    // A document may be a megabyte, in which others have their turns.
    const pace = new Pace();
    const stored = store(value);
    await pace.rest();
    const change = await recordedLargeChange(record(value));
    await pace.rest();
    const { id: bucketId } = context.bucket;
    await context.commit({ kind: 'putBucketSetting', bucketId, ...stored }, { status, change });
  }
  return {
    GET: { name: getName, action: read, resource: 'bucket', price: 'get', run: show },
    PUT: {
      name: putName,
      action: write,
      resource: 'bucket',
      price: 'put',
      bodyBytesMax,
      run: async (context) => {
        const value = await receive(context);
        const reply = answer(value);
        await set(context, value, reply);
        return reply;
      },
    },
    DELETE: {
      name: removeName,
      action: remove,
      resource: 'bucket',
      price: 'free',
      run: async (context) => {
        const reply = emptyReply(204);
        await set(context, null, reply);
        return reply;
      },
    },
  };
}

/** The refusal of who reads a setting that the bucket has not. */
function notSet(code: ErrorCode, { askedName }: Reserved<'bucket'>): Refusal {
  return new Refusal(code, { fields: { BucketName: askedName } });
}

export const bucketCors = bucketSetting({
  operations: ['GetBucketCors', 'PutBucketCors', 'DeleteBucketCors'],
  actions: { read: 's3:GetBucketCORS', write: 's3:PutBucketCORS' },
  bodyBytesMax: corsBodyBytesMax,
  show: async (context) => {
    const found = await context.services.cors.find(context.bucket.id);
    if (!found) throw notSet('NoSuchCORSConfiguration', context);
    return xmlReply('CORSConfiguration', corsElements(found.rules));
  },
  receive: receiveCors,
  store: (rules) => ({ name: 'cors', document: rules && JSON.stringify(rules) }),
  record: (cors) => ({ cors }),
});

async function receiveCors(context: Reserved<'bucket'>): Promise<readonly CorsRule[]> {
  const body = await receiveDocument(context);
  const root = await parseLargeXml(body, 'CORSConfiguration');
  const pace = new Pace();
  await pace.rest();
  const rules = parseCorsRules(root);
  await pace.rest();
  return rules;
}

/** How objects are encrypted whose writers say nothing of it. */
export const bucketEncryption = bucketSetting<BucketEncryption>({
  operations: ['GetBucketEncryption', 'PutBucketEncryption', 'DeleteBucketEncryption'],
  actions: { read: 's3:GetEncryptionConfiguration', write: 's3:PutEncryptionConfiguration' },
  bodyBytesMax: 64 * 1024,
  show: async (context) => {
    const { services, bucket } = context;
    if (!services.encrypts) {
      throw notSet('ServerSideEncryptionConfigurationNotFoundError', context);
    }
    const set = (await services.encryption.find(bucket.id)) ?? defaultEncryption;
    return xmlReply('ServerSideEncryptionConfiguration', encryptionElements(set));
  },
  receive: async (context) => {
    const { encrypts, keyring } = context.services;
    const set = parseEncryption(await receiveDocument(context), keyring.wrappedBy);
    if (encrypts) return set;
    const message = 'This gateway does not encrypt what it stores.';
    throw new Refusal('NotImplemented', { message });
  },
  store: (set) => ({ name: 'encryption', document: set && JSON.stringify(set) }),
  record: (encryption) => ({ encryption }),
});

export const bucketWebsite = bucketSetting<Website>({
  operations: ['GetBucketWebsite', 'PutBucketWebsite', 'DeleteBucketWebsite'],
  actions: {
    read: 's3:GetBucketWebsite',
    write: 's3:PutBucketWebsite',
    remove: 's3:DeleteBucketWebsite',
  },
  bodyBytesMax: websiteBodyBytesMax,
  show: async (context) => {
    const site = await context.services.websites.find(context.bucket.id);
    if (!site) throw notSet('NoSuchWebsiteConfiguration', context);
    return xmlReply('WebsiteConfiguration', websiteElements(site));
  },
  receive: async (context) =>
    parseWebsite(parseXml(await receiveDocument(context), 'WebsiteConfiguration')),
  store: (site) => ({ name: 'website', document: site && JSON.stringify(site) }),
  record: (website) => ({ website }),
});

const accelerations = ['Enabled', 'Suspended'] as const;
type Acceleration = (typeof accelerations)[number];

const acceleration = bucketSetting<Acceleration>({
  operations: [
    'GetBucketAccelerateConfiguration',
    'PutBucketAccelerateConfiguration',
    'DeleteBucketAccelerateConfiguration',
  ],
  actions: { read: 's3:GetAccelerateConfiguration', write: 's3:PutAccelerateConfiguration' },
  bodyBytesMax: 64 * 1024,
  show: async ({ services, bucket }) => {
    const document = await readSetting(services.read, bucket.id, 'accelerate');
    const Status = document === null ? undefined : (JSON.parse(document) as Acceleration);
    return xmlReply('AccelerateConfiguration', { Status });
  },
  receive: async (context) => {
    const body = await receiveDocument(context);
    if (context.bucket.name.includes('.')) {
      const message =
        'S3 Transfer Acceleration is not supported for buckets with periods (.) in their names';
      throw new Refusal('InvalidRequest', { message });
    }
    const [status] = onlyChildren(parseXml(body, 'AccelerateConfiguration'), ['Status']);
    const known = accelerations.find((one) => one === status?.text);
    if (!known) throw new Refusal('MalformedXML');
    return known;
  },
  store: (status) => ({ name: 'accelerate', document: status && JSON.stringify(status) }),
  record: (accelerate) => ({ accelerate }),
});

/**
 * What is asked for is kept and shown; there is no other way to a gateway that would be faster. S3
 * has nothing that takes it away.
 */
export const bucketAccelerate = { GET: acceleration.GET, PUT: acceleration.PUT };

const minimumHeader = 'x-amz-transition-default-minimum-object-size';

export const bucketLifecycle = bucketSetting<LifecycleConfig>({
  operations: [
    'GetBucketLifecycleConfiguration',
    'PutBucketLifecycleConfiguration',
    'DeleteBucketLifecycle',
  ],
  actions: { read: 's3:GetLifecycleConfiguration', write: 's3:PutLifecycleConfiguration' },
  bodyBytesMax: lifecycleBodyBytesMax,
  show: showLifecycle,
  receive: receiveLifecycle,
  store: (config) => ({ name: 'lifecycle', document: config && JSON.stringify(config) }),
  record: (lifecycle) => ({ lifecycle }),
  answer: ({ transitionMinimum }) => emptyReply(200, { [minimumHeader]: transitionMinimum }),
});

async function showLifecycle(context: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(context.services.read, context.bucket.id, 'lifecycle');
  if (document === null) throw notSet('NoSuchLifecycleConfiguration', context);
  const { rules, transitionMinimum } = JSON.parse(document) as LifecycleConfig;
  const { services, bucket } = context;
  const shown = (name: string) => shownClass(services, bucket.tenant, name);
  const reply = await largeXmlReply('LifecycleConfiguration', lifecycleElements(rules, shown));
  return { ...reply, headers: { ...reply.headers, [minimumHeader]: transitionMinimum } };
}

async function receiveLifecycle(context: Reserved<'bucket'>): Promise<LifecycleConfig> {
  // Both are refused before the body is sent, a body without a digest first.
  demandDigest(context);
  const transitionMinimum = readMinimum(context);
  const root = await parseLargeXml(await receiveDocument(context), 'LifecycleConfiguration');
  const pace = new Pace();
  await pace.wait();
  const rules = parseLifecycle(root, (asked) => targetIn(context, asked));
  await pace.wait();
  return { rules, transitionMinimum };
}

/** As by who writes there: a token that may not write into a class moves nothing into it. */
function targetIn(context: Reserved<'bucket'>, asked: string): TransitionTarget {
  const { name, definition } = readTransitionClass(context.services, context.bucket, asked);
  context.asked.checkWritten({ storageClass: name, sizeBytes: 0 });
  return definition.access === 'restore' ? { class: name, isArchive: true } : { class: name };
}

/** Throws `Refusal` InvalidRequest. */
function readMinimum({ request }: Reserved<'bucket'>): TransitionMinimum {
  const asked = request.headers[minimumHeader];
  if (asked === undefined) return transitionMinimums[0];
  const known = transitionMinimums.find((one) => one === asked);
  if (!known) {
    const message = `Invalid TransitionDefaultMinimumObjectSize found: ${asked}`;
    throw new Refusal('InvalidRequest', { message });
  }
  return known;
}

/**
 * Whether a bucket and its objects may be given ACLs (buckets/acl.ts). As on S3, a new bucket has
 * these controls, and says BucketOwnerEnforced.
 */
export const ownershipControls = bucketSetting({
  operations: [
    'GetBucketOwnershipControls',
    'PutBucketOwnershipControls',
    'DeleteBucketOwnershipControls',
  ],
  actions: { read: 's3:GetBucketOwnershipControls', write: 's3:PutBucketOwnershipControls' },
  bodyBytesMax: 64 * 1024,
  show: async (context) => {
    const { ownership } = context.bucket;
    if (ownership === noControls) throw notSet('OwnershipControlsNotFoundError', context);
    return xmlReply('OwnershipControls', { Rule: { ObjectOwnership: ownership ?? enforced } });
  },
  receive: async (context) => {
    const ownership = parseOwnership(await receiveDocument(context));
    const { acl } = context.bucket.publicAccess ?? {};
    if (acl && ownership === enforced) throw new Refusal('InvalidBucketAclWithObjectOwnership');
    return ownership;
  },
  store: (ownership) => ({ name: 'ownership', document: ownership ?? noControls }),
  record: (ownership) => ({ ownership }),
});

export const bucketTagging = bucketSetting<Tags>({
  operations: ['GetBucketTagging', 'PutBucketTagging', 'DeleteBucketTagging'],
  actions: { read: 's3:GetBucketTagging', write: 's3:PutBucketTagging' },
  // More than the tags can have, so that their reader can say what is wrong with them.
  bodyBytesMax: 128 * 1024,
  show: async (context) => {
    const document = await readSetting(context.services.read, context.bucket.id, 'tagging');
    if (document === null) throw notSet('NoSuchTagSet', context);
    const tags = (JSON.parse(document) as Tags).map(([Key, Value]) => ({ Key, Value }));
    return xmlReply('Tagging', { TagSet: { Tag: tags } });
  },
  receive: async (context) => parseTagging(await receiveDocument(context), bucketTagsMax),
  // A bucket without tags has no tag set.
  store: (tags) => ({ name: 'tagging', document: tags?.length ? JSON.stringify(tags) : null }),
  record: (tags) => ({ tags }),
  answer: () => emptyReply(204),
});

/** What a bucket refuses to give everybody. */
export const publicAccessBlock = bucketSetting({
  operations: ['GetPublicAccessBlock', 'PutPublicAccessBlock', 'DeletePublicAccessBlock'],
  actions: { read: 's3:GetBucketPublicAccessBlock', write: 's3:PutBucketPublicAccessBlock' },
  bodyBytesMax: 64 * 1024,
  show: async (context) => {
    const publicAccess = blockOf(context.bucket);
    if (!publicAccess) throw notSet('NoSuchPublicAccessBlockConfiguration', context);
    return xmlReply('PublicAccessBlockConfiguration', publicAccessElements(publicAccess));
  },
  receive: async (context) => parsePublicAccess(await receiveDocument(context)),
  store: (block) => ({ name: 'publicAccess', document: block && JSON.stringify(block) }),
  record: (publicAccess) => ({ publicAccess }),
});

/** Of which changes it tells whom. As on S3, none is an empty document that takes all away. */
const { GET: getNotification, PUT: putNotification } = bucketSetting<AskedNotifications>({
  operations: [
    'GetBucketNotificationConfiguration',
    'PutBucketNotificationConfiguration',
    'DeleteBucketNotificationConfiguration',
  ],
  actions: { read: 's3:GetBucketNotification', write: 's3:PutBucketNotification' },
  bodyBytesMax: notificationBodyBytesMax,
  show: async (context) => {
    const set = await context.services.notifications.find(context.bucket.id);
    return largeXmlReply('NotificationConfiguration', notificationElements(set?.rules ?? []));
  },
  receive: async (context) => {
    const { who, bucket, services } = context;
    // What is told goes on long after the token has expired.
    if (who.delegation !== null || who.isAnonymous) {
      const message = 'With a token, or without credentials, no notification is configured.';
      throw new Refusal('AccessDenied', { message });
    }
    const root = await parseLargeXml(await receiveDocument(context), 'NotificationConfiguration');
    const targets = await listTargets(services.read, bucket.tenant);
    const byArn = new Map(targets.map((target) => [arnOf(target), target.name]));
    return { by: who.principal.id, rules: parseNotificationRules(root, byArn) };
  },
  store: (asked) => ({
    ...{ name: 'notification', document: asked?.rules.length ? JSON.stringify(asked) : null },
  }),
  record: (asked) => ({ notification: asked?.rules ?? [] }),
});

export const bucketNotification = { GET: getNotification, PUT: putNotification };

const { GET: getRequestPayment, PUT: putRequestPayment } = bucketSetting<ReadPayer>({
  operations: ['GetBucketRequestPayment', 'PutBucketRequestPayment', 'DeleteBucketRequestPayment'],
  actions: { read: 's3:GetBucketRequestPayment', write: 's3:PutBucketRequestPayment' },
  bodyBytesMax: 64 * 1024,
  show: async ({ bucket }) => {
    const Payer = bucket.publicAccess?.requesterPays ? 'Requester' : 'BucketOwner';
    return xmlReply('RequestPaymentConfiguration', { Payer });
  },
  receive: async (context) => parsePayment(await receiveDocument(context)),
  store: (payer) => ({ name: 'readPayer', document: payerDocument(payer ?? 'owner') }),
  record: (payer) => ({ payer: payer === 'requester' ? 'Requester' : 'BucketOwner' }),
});

/** Who pays for what is read from another tenant. S3 has nothing that takes it away. */
export const requestPayment = { GET: getRequestPayment, PUT: putRequestPayment };
