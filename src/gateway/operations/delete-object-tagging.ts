// DeleteObjectTagging.
import type { Operation } from '../operation.ts';
import { amendTags } from './put-object-tagging.ts';

export const deleteObjectTagging: Operation<'object'> = {
  name: 'DeleteObjectTagging',
  action: 's3:DeleteObjectTagging',
  versionAction: 's3:DeleteObjectVersionTagging',
  resource: 'object',
  price: 'free',
  bodyBytesMax: 0,
  run: (context) => amendTags(context, [], 204),
};
