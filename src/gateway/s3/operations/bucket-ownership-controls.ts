// The ownership controls of a bucket: whether it and its objects may be given ACLs (acl.ts). As on
// S3, a new bucket has them, and says BucketOwnerEnforced.

import { xmlReply } from '../../http/reply.ts';
import { enforced, noControls, parseOwnership } from '../buckets/acl.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { bucketSetting, notSet } from './bucket-setting.ts';

export const [
  getBucketOwnershipControls,
  putBucketOwnershipControls,
  deleteBucketOwnershipControls,
] = bucketSetting({
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
  receive: async (context) => parseOwnership(await receiveDocument(context)),
  store: (ownership) => ({ name: 'ownership', document: ownership ?? noControls }),
  record: (ownership) => ({ ownership }),
});
