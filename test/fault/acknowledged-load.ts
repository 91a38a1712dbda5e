// Writes to a bucket that keeps versions and to one that does not, of which what was acknowledged
// is known, to be compared with what is there afterwards.
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { ask } from './rebuild-content.ts';
import { listVersions } from './restore-content.ts';
import type { S3Client } from './s3-client.ts';

const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

/** Writes, and knows what was acknowledged. */
export class Load {
  /** Seeds by path; of the bucket that keeps versions all, and else the last. */
  readonly last = new Map<string, number>();
  readonly versions = new Map<string, number>();
  /** Written by requests whose answer never came: they may be there or not. */
  readonly unsure = new Map<string, Set<number>>();
  readonly #running: Promise<void>[];
  #seed = 0;
  #isOver = false;

  constructor(client: S3Client) {
    this.#running = Array.from({ length: 4 }, (_, i) => this.#run(client, i));
  }

  get keys(): string[] {
    return [...this.last.keys()];
  }

  get count(): number {
    return this.#seed;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #run(client: S3Client, worker: number): Promise<void> {
    for (let i = 0; !this.#isOver; i++) {
      const seed = ++this.#seed;
      const path = `/${i % 3 === 0 ? 'kept' : 'plain'}/${worker}-${i % 17}`;
      const body = bodyOf(seed);
      const unsure = this.unsure.get(path) ?? new Set();
      this.unsure.set(path, unsure.add(seed));
      try {
        const { status, headers } = await client.send('PUT', path, { body });
        if (status !== 200) continue;
        unsure.delete(seed);
        this.last.set(path, seed);
        const version = headers['x-amz-version-id'];
        if (version) this.versions.set(`${path}?${version}`, seed);
      } catch {
        return;
      }
    }
  }
}

export function bodyOf(seed: number): Buffer {
  return seededBytes(seed, 100 + ((seed * 7919) % 20_000) + (seed % 13 === 0 ? 150_000 : 0));
}

/** Makes the buckets of the load. */
export async function prepare(client: S3Client): Promise<void> {
  await ask(client, 'PUT', '/plain');
  await ask(client, 'PUT', '/kept');
  const body = Buffer.from(enabled);
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  await ask(client, 'PUT', '/kept', { query: [['versioning', '']], headers, body });
}

/** All that was acknowledged is there, also what was asked for and never answered, or not. */
export async function expectAll(client: S3Client, { last, versions, unsure }: Load): Promise<void> {
  for (const [path, seed] of last) {
    if (path.startsWith('/kept')) continue;
    const { body } = await ask(client, 'GET', path);
    const seeds = [seed, ...(unsure.get(path) ?? [])];
    expect(
      seeds.some((one) => body.equals(bodyOf(one))),
      path,
    ).toBe(true);
  }
  const listed = await listVersions(client, 'kept');
  for (const [name, seed] of versions) {
    const [path = '', id = ''] = name.split('?');
    expect(
      listed.some(({ versionId }) => versionId === id),
      name,
    ).toBe(true);
    const { body } = await ask(client, 'GET', path, { query: [['versionId', id]] });
    expect(body.equals(bodyOf(seed)), name).toBe(true);
  }
}
