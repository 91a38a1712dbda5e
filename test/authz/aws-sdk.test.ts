// Requests made by the AWS SDK and caught where it would send them.
import { Readable } from 'node:stream';
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { describe, expect, it } from 'vitest';
import type { SignedRequest } from '#bursar/authz/authenticate.js';
import { AwsChunkedDecoder, trailerNames } from '#bursar/authz/aws-chunked.js';
import { accessKeyId, alice, exampleAuthenticator, request, secret } from './requests.ts';

interface Sent {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: Record<string, string>;
  body?: AsyncIterable<Uint8Array>;
}

/** The request that a command makes, and its body as it would go over the wire. */
async function caught(
  send: (client: S3Client) => Promise<unknown>,
): Promise<{ request: SignedRequest; body: Buffer[] }> {
  let sent: Sent | undefined;
  const body: Buffer[] = [];
  const client = new S3Client({
    region: 'eu-central-1',
    credentials: { accessKeyId, secretAccessKey: secret },
    endpoint: 'http://127.0.0.1:9000',
    forcePathStyle: true,
    maxAttempts: 1,
    requestHandler: {
      handle: async (asked: Sent) => {
        sent = asked;
        if (asked.body instanceof Readable) {
          for await (const piece of asked.body) body.push(Buffer.from(piece));
        }
        throw new Error('caught');
      },
    } as never,
  });
  await expect(send(client)).rejects.toThrow('caught');
  const { method, path, query, headers } = sent as unknown as Sent;
  const search = Object.entries(query).map((pair) => pair.map(encodeURIComponent).join('='));
  return { request: request(method, `${path}?${search.join('&')}`, Object.entries(headers)), body };
}

describe('what the AWS SDK sends', () => {
  it.each([
    [
      'an upload with metadata and a key full of punctuation',
      (client: S3Client) =>
        client.send(
          new PutObjectCommand({
            Bucket: 'b',
            Key: "a b/ü+(1)*!'~&=?#%41/日本",
            Body: 'body',
            Metadata: { spaced: 'a    b', list: 'a, b,c' },
          }),
        ),
    ],
    [
      'a ranged download',
      (client: S3Client) =>
        client.send(new GetObjectCommand({ Bucket: 'b', Key: 'k', Range: 'bytes=0-9' })),
    ],
    [
      'a listing',
      (client: S3Client) =>
        client.send(
          new ListObjectsV2Command({ Bucket: 'b', Prefix: 'a b/ü', Delimiter: '/', MaxKeys: 2 }),
        ),
    ],
  ] as const)('%s authenticates', async (_title, send) => {
    const { request: sent } = await caught(send);
    const identity = await exampleAuthenticator(Date.now()).authenticate(sent);
    expect(identity).toMatchObject({ principal: alice, payload: { kind: 'sha256' } });
  });

  it('a streamed upload authenticates, and its body decodes with its checksum', async () => {
    const { request: sent, body } = await caught((client) =>
      client.send(
        new PutObjectCommand({
          Bucket: 'b',
          Key: 'k',
          Body: Readable.from([Buffer.from('hello, '), Buffer.from('world')]),
          ContentLength: 12,
        }),
      ),
    );
    const identity = await exampleAuthenticator(Date.now()).authenticate(sent);
    expect(identity?.payload).toEqual({ kind: 'unsigned-chunks' });

    const decoder = new AwsChunkedDecoder({
      decodedBytes: Number(sent.headers['x-amz-decoded-content-length']),
      seed: null,
      trailer: true,
      trailerNames: trailerNames(sent.headers),
    });
    const data: Buffer[] = [];
    for (const piece of body) decoder.push(piece, (slice) => data.push(slice));
    decoder.finish();
    expect(Buffer.concat(data).toString()).toBe('hello, world');
    // CRC-32 of "hello, world" is 0xffab723a.
    expect([...decoder.trailers]).toEqual([['x-amz-checksum-crc32', '/6tyOg==']]);
  });
});
