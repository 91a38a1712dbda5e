// aws-chunked bodies for the tests, made straight from the text of the specification and without
// any code of Bursar's, so that encoder and decoder cannot share a mistake.
import { createHash, createHmac } from 'node:crypto';
import type { ChunkSeed } from '#bursar/authz/aws-chunked.js';

function sha256(data: Buffer | string): string {
  return createHash('sha256').update(data).digest('hex');
}

export interface EncodedBody {
  bytes: Buffer;
  signatures: string[];
}

/** Frames `chunks` (the empty last one is added) and, where given, trailers. */
export function encodeChunks(
  chunks: readonly Buffer[],
  seed: ChunkSeed | null,
  trailers: ReadonlyArray<readonly [string, string]> | null,
): EncodedBody {
  const parts: Buffer[] = [];
  const signatures: string[] = [];
  let previous = seed?.signature ?? '';
  const sign = (kind: string, digests: string): string => {
    const { signingKey, amzDate, scope } = seed as ChunkSeed;
    previous = createHmac('sha256', signingKey)
      .update([kind, amzDate, scope, previous, digests].join('\n'))
      .digest('hex');
    signatures.push(previous);
    return previous;
  };
  for (const chunk of [...chunks, Buffer.alloc(0)]) {
    const signature =
      seed === null
        ? ''
        : `;chunk-signature=${sign('AWS4-HMAC-SHA256-PAYLOAD', `${sha256('')}\n${sha256(chunk)}`)}`;
    parts.push(Buffer.from(`${chunk.length.toString(16)}${signature}\r\n`), chunk);
    if (chunk.length > 0) parts.push(Buffer.from('\r\n'));
  }
  if (trailers !== null) {
    for (const [name, value] of trailers) parts.push(Buffer.from(`${name}:${value}\r\n`));
    if (seed !== null) {
      const canonical = trailers.map(([name, value]) => `${name}:${value}\n`).join('');
      const signature = sign('AWS4-HMAC-SHA256-TRAILER', sha256(canonical));
      parts.push(Buffer.from(`x-amz-trailer-signature:${signature}\r\n`));
    }
  }
  parts.push(Buffer.from('\r\n'));
  return { bytes: Buffer.concat(parts), signatures };
}
