// The public access block of a bucket: what it refuses to give everybody.

import { xmlReply } from '../../http/reply.ts';
import { parsePublicAccess, publicAccessElements } from '../buckets/public-access.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { bucketSetting, notSet } from './bucket-setting.ts';

export const [getPublicAccessBlock, putPublicAccessBlock, deletePublicAccessBlock] = bucketSetting({
  operations: ['GetPublicAccessBlock', 'PutPublicAccessBlock', 'DeletePublicAccessBlock'],
  actions: { read: 's3:GetBucketPublicAccessBlock', write: 's3:PutBucketPublicAccessBlock' },
  bodyBytesMax: 64 * 1024,
  show: async (context) => {
    const { publicAccess } = context.bucket;
    if (!publicAccess) throw notSet('NoSuchPublicAccessBlockConfiguration', context);
    return xmlReply('PublicAccessBlockConfiguration', publicAccessElements(publicAccess));
  },
  receive: async (context) => parsePublicAccess(await receiveDocument(context)),
  store: (block) => ({ name: 'publicAccess', document: block && JSON.stringify(block) }),
  record: (publicAccess) => ({ publicAccess }),
});
