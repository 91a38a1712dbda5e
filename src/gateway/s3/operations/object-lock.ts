// Object lock: that of a bucket, with the retention that its new versions have by default; and the
// retention and the legal hold of a version, which keep it from being deleted.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Lock, Retention } from '../../../catalog/object-lock.ts';
import type { Version } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply, xmlReply } from '../../http/reply.ts';
import { findAsked, shownId } from '../asked-version.ts';
import { receiveDocument } from '../demanded-digest.ts';
import {
  bypassesGovernance,
  demandObjectLock,
  lockRefusal,
  shownRetention,
} from '../objects/object-lock.ts';
import {
  lockConfigurationElements,
  parseLegalHold,
  parseLockConfiguration,
  parseRetention,
  retentionElements,
} from '../objects/object-lock-xml.ts';
import { checkLock } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { Asked, Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

const getLockConfiguration: Operation<'bucket'> = {
  name: 'GetObjectLockConfiguration',
  action: 's3:GetBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'get',
  async run({ bucket, askedName }) {
    if (bucket.objectLock) {
      return xmlReply('ObjectLockConfiguration', lockConfigurationElements(bucket.objectLock));
    }
    const fields = { BucketName: askedName };
    throw new Refusal('ObjectLockConfigurationNotFoundError', { fields });
  },
};

/** Gives a bucket with versioning object lock, for ever, or another default retention. */
const putLockConfiguration: Operation<'bucket'> = {
  name: 'PutObjectLockConfiguration',
  action: 's3:PutBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  async run(context) {
    const config = parseLockConfiguration(await receiveDocument(context));
    if (context.bucket.versioning !== 'Enabled') {
      const message =
        "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration";
      throw new Refusal('InvalidBucketState', { message });
    }
    const document = JSON.stringify(config);
    await context.commit(
      { kind: 'putBucketSetting', bucketId: context.bucket.id, name: 'objectLock', document },
      { change: recordedChange({ objectLock: lockConfigurationElements(config) }) },
    );
    return emptyReply(200);
  },
};

export const lockConfiguration = { GET: getLockConfiguration, PUT: putLockConfiguration };

/** What protects a version: `T` is what a document says of it. */
interface Protection<T> {
  name: 'LegalHold' | 'Retention';
  parse(document: Buffer): T;
  /** What rules can ask for of the lock that is set. */
  learn(value: T): Lock;
  /** What GET answers; null: the version has none. */
  show(lock: Lock): Reply | null;
  put(context: Reserved<'object'>, version: Version, value: T): Promise<void>;
}

function protection<T>({ name, parse, learn, show, put }: Protection<T>): {
  GET: Operation<'object'>;
  PUT: Operation<'object', T>;
} {
  const common = { takesVersion: true, resource: 'object' } as const;
  return {
    GET: {
      name: `GetObject${name}`,
      action: `s3:GetObject${name}`,
      ...common,
      price: 'get',
      async run(context) {
        demandObjectLock(context);
        const { attributes } = await findAsked(context);
        const reply = show(JSON.parse(attributes) as Lock);
        if (!reply) throw new Refusal('NoSuchObjectLockConfiguration');
        return reply;
      },
    },
    PUT: {
      name: `PutObject${name}`,
      action: `s3:PutObject${name}`,
      ...common,
      price: 'put',
      bodyBytesMax,
      /** Rules may depend on what is in the body, so it is read before anything is decided. */
      async parse(asked: Asked<'object'>) {
        if (asked.who.isAnonymous) throw new Refusal('AccessDenied');
        return parse(await receiveDocument(asked, 'MalformedXML'));
      },
      admit(asked, value) {
        asked.learnLock(learn(value));
        return asked.authorizeKey(`s3:PutObject${name}`);
      },
      async run(context, value) {
        demandObjectLock(context);
        const version = await findAsked(context, 'MethodNotAllowed');
        await put(context, version, value);
        return emptyReply(200);
      },
    },
  };
}

/** It lasts until it is taken away. */
export const objectLegalHold = protection<boolean>({
  name: 'LegalHold',
  parse: parseLegalHold,
  learn: (legalHold) => ({ legalHold }),
  show: ({ legalHold }) =>
    legalHold === undefined ? null : xmlReply('LegalHold', { Status: legalHold ? 'ON' : 'OFF' }),
  put: async (context, version, legalHold) => {
    const { bucket, key } = context;
    const versionId = shownId(bucket, version);
    await context.commit(
      { kind: 'amendVersion', bucketId: bucket.id, key, versionId, amendment: { legalHold } },
      { change: recordedChange({ legalHold }) },
    );
  },
});

/** Until when a version cannot be deleted. It is shortened or ended where that is allowed. */
export const objectRetention = protection<Retention | null>({
  name: 'Retention',
  parse: parseRetention,
  learn: (retention) => (retention ? { retention } : {}),
  show: ({ retention }) => (retention ? xmlReply('Retention', retentionElements(retention)) : null),
  put: async (context, version, retention) => {
    const { bucket, key, services } = context;
    if (retention) checkLock(services, bucket, version.class, { retention });
    const versionId = shownId(bucket, version);
    const bypassGovernance = await bypassesGovernance(context, { key, versionId });
    const told = { retention: retention && shownRetention(retention), bypassGovernance };
    const amendment = { retention };
    const result = await context.tryCommit(
      { kind: 'amendVersion', bucketId: bucket.id, key, versionId, amendment, bypassGovernance },
      { change: recordedChange(told) },
    );
    if (!result.ok) throw lockRefusal(context, result);
  },
});
