// A gateway that ships what it commits to the S3 server that has its store (docs/admin/backup.md).
import { vi } from 'vitest';
import { ask } from './rebuild-content.ts';
import type { RebuildRig } from './rebuild-rig.ts';
import type { S3Client } from './s3-client.ts';

export const place = 's3://backend/backups';
/** Much longer than it takes. */
export const waitMsMax = 120_000;

export function shippingFlags({ backend }: RebuildRig): string[] {
  const where = ['--backup-to', place, '--backup-endpoint', backend.endpoint];
  return [...where, '--backup-path-style', '--backup-ship-every', '200ms'];
}

export async function native(client: S3Client, method: string, path: string, body?: unknown) {
  const headers = { 'content-type': 'application/json' };
  const sent = body === undefined ? {} : { headers, body: Buffer.from(JSON.stringify(body)) };
  return JSON.parse((await ask(client, method, `/_/v1${path}`, sent)).body.toString());
}

export async function health(client: S3Client) {
  return JSON.parse((await client.send('GET', '/_/v1/health')).body.toString());
}

/** Waits until all that was answered before can be restored. */
export async function untilShipped(client: S3Client): Promise<void> {
  const sinceMs = Date.now();
  const isShipped = async () => {
    const askedMs = Date.now();
    const { shipping } = await health(client);
    return askedMs - shipping.lagSeconds * 1000 > sinceMs;
  };
  await vi.waitUntil(isShipped, { timeout: waitMsMax, interval: 100 });
}
