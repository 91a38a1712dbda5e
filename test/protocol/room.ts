// A bucket with one object, and how tests send single messages about it.
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { clientOf, type Message, newBucket, send, type Target } from './target.ts';

export interface Room {
  target: Target;
  client: S3Client;
  /** It has the object `k`, of five bytes. */
  Bucket: string;
}

export async function makeRoom(target: Target): Promise<Room> {
  const client = clientOf(target);
  const Bucket = await newBucket(client);
  await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'five5' }));
  return { target, client, Bucket };
}

/** One message to the bucket: its method, what is behind its name, and more. */
export function ask(
  { target, Bucket }: Room,
  method: string,
  path = '',
  more: Partial<Omit<Message, 'query'>> & { query?: Record<string, string> } = {},
) {
  const query = Object.entries(more.query ?? {});
  return send(target, { ...more, method, path: `/${Bucket}${path}`, query });
}
