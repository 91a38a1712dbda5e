// Settings of S3's that no bucket has here. Who reads one is answered as S3 answers for a bucket
// that has none, so that tools which look before they act go on; to set one answers 501.
import type { S3Action } from '../../../authz/grants/actions.ts';
import { type ErrorCode, Refusal } from '../../../core/errors.ts';
import { xmlReply } from '../../http/reply.ts';
import type { XmlContent } from '../../http/xml.ts';
import type { Operation } from '../operation.ts';

/** Reads an empty document, or one that says what is always so. */
function emptySetting(
  name: string,
  action: S3Action,
  root: string,
  content: XmlContent = {},
): Operation<'bucket'> {
  const run = async () => xmlReply(root, content);
  return { name, action, resource: 'bucket', price: 'get', run };
}

/** Refuses with what S3 says of a setting that is not there. */
function missingSetting(name: string, action: S3Action, code: ErrorCode): Operation<'bucket'> {
  return {
    ...{ name, action, resource: 'bucket', price: 'get' },
    run: async ({ askedName }) => {
      // As on S3, of one that has an id the bucket is not named.
      if (code === 'NoSuchConfiguration') throw new Refusal(code);
      throw new Refusal(code, { fields: { BucketName: askedName } });
    },
  };
}

/** A setting of which S3 has several, each under an id: what lists them, and what reads one. */
function emptyList(of: string, action: S3Action, root: string) {
  return {
    list: emptySetting(`ListBucket${of}Configurations`, action, root, { IsTruncated: false }),
    one: missingSetting(`GetBucket${of}Configuration`, action, 'NoSuchConfiguration'),
  };
}

export const bucketLogging = emptySetting(
  'GetBucketLogging',
  's3:GetBucketLogging',
  'BucketLoggingStatus',
);

export const bucketReplication = missingSetting(
  'GetBucketReplication',
  's3:GetReplicationConfiguration',
  'ReplicationConfigurationNotFoundError',
);

export const bucketAnalytics = emptyList(
  'Analytics',
  's3:GetAnalyticsConfiguration',
  'ListBucketAnalyticsConfigurationResult',
);
