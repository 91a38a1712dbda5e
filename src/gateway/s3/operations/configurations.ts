// Settings of which a bucket has several, each under an id. S3 gives, takes, removes and lists each
// kind of them in the same way.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { S3Action } from '../../../authz/grants/actions.ts';

import { readConfigurations } from '../../../catalog/buckets.ts';
import type { AskedConfiguration } from '../../../catalog/configurations.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { parseXml, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

/** One kind of such settings. */
interface Kind<T> {
  setting: 'inventory' | 'intelligentTiering' | 'metrics';
  /** As in the names of its operations: `Inventory` of `GetBucketInventoryConfiguration`. */
  name: string;
  /** The root of a listing. */
  listed: string;
  actions: { read: S3Action; write: S3Action };
  /** The status of a PUT. */
  putStatus: number;
  /** Throws `Refusal` for who may configure none, before anything is read. */
  admit?(context: Reserved<'bucket'>): void;
  /** Throws `Refusal`. */
  parse(root: XmlNode, id: string, context: Reserved<'bucket'>): T | Promise<T>;
  elements(config: T): XmlElements;
}

export interface ConfigurationOperations {
  one: { GET: Operation<'bucket'>; PUT: Operation<'bucket'>; DELETE: Operation<'bucket'> };
  list: { GET: Operation<'bucket'> };
}

const bodyBytesMax = 64 * 1024;
const pageMax = 100;

/** The operations on the configurations of one kind. */
export function configurationsOf<T extends { id: string }>(kind: Kind<T>): ConfigurationOperations {
  const { setting, name, actions } = kind;
  const read = { action: actions.read, resource: 'bucket', price: 'get' } as const;
  const write = { action: actions.write, resource: 'bucket' } as const;
  const root = `${name}Configuration`;

  const readAll = ({ services, bucket }: Reserved<'bucket'>): Promise<T[]> =>
    readConfigurations(services.read, bucket.id, setting);

  const set = async (
    context: Reserved<'bucket'>,
    asked: AskedConfiguration<T>,
    status: number,
  ): Promise<void> => {
    const change = recordedChange({ [setting]: asked.config, id: asked.id });
    const document = JSON.stringify(asked);
    await context.commit(
      { kind: 'putBucketSetting', bucketId: context.bucket.id, name: setting, document },
      { status, change },
    );
  };

  const get: Operation<'bucket'> = {
    ...{ name: `GetBucket${root}`, ...read },
    run: async (context) => {
      const id = idOf(context);
      const found = (await readAll(context)).find((one) => one.id === id);
      if (!found) throw new Refusal('NoSuchConfiguration');
      return xmlReply(root, kind.elements(found));
    },
  };

  const put: Operation<'bucket'> = {
    ...{ name: `PutBucket${root}`, ...write, price: 'put', bodyBytesMax },
    run: async (context) => {
      kind.admit?.(context);
      const id = idOf(context);
      const config = await kind.parse(parseXml(await receiveDocument(context), root), id, context);
      await set(context, { id, config }, kind.putStatus);
      return emptyReply(kind.putStatus);
    },
  };

  const remove: Operation<'bucket'> = {
    ...{ name: `DeleteBucket${root}`, ...write, price: 'free' },
    run: async (context) => {
      await set(context, { id: idOf(context), config: null }, 204);
      return emptyReply(204);
    },
  };

  const list: Operation<'bucket'> = {
    ...{ name: `ListBucket${root}s`, ...read },
    run: async (context) => {
      const { query } = context.request;
      const after = query.find(([key]) => key === 'continuation-token')?.[1] ?? '';
      const rest = (await readAll(context)).filter(({ id }) => id > after);
      const page = rest.slice(0, pageMax);
      const isTruncated = rest.length > page.length;
      return xmlReply(kind.listed, {
        ...(after !== '' && { ContinuationToken: after }),
        [root]: page.map(kind.elements),
        IsTruncated: isTruncated,
        ...(isTruncated && { NextContinuationToken: page.at(-1)?.id }),
      });
    },
  };

  return { one: { GET: get, PUT: put, DELETE: remove }, list: { GET: list } };
}

/** The id that a request names. Throws `Refusal`. */
function idOf({ request }: Reserved<'bucket'>): string {
  const found = request.query.find(([name]) => name === 'id')?.[1];
  if (found) return found;
  throw invalidArgument('id', '', 'Missing required parameter: id');
}
