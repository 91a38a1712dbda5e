// What a gateway is given under snapshots, and what their mounts show of it: to be compared after
// its database was lost.
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import type { RebuildRig } from './rebuild-rig.ts';
import type { Answer, Sending } from './s3-client.ts';

export class SnapshotContent {
  /** What buckets and mounts showed, by name. */
  readonly shown = new Map<string, string[]>();
  readonly #rig: RebuildRig;

  constructor(rig: RebuildRig) {
    this.#rig = rig;
  }

  readonly ask = async (method: string, target: string, sending: Sending = {}): Promise<Answer> => {
    const answer = await this.#rig.client.send(method, target, sending);
    if (answer.status < 300) return answer;
    throw new Error(`${method} ${target}: ${answer.status} ${answer.body.toString()}`);
  };

  /** `sending`: with headers of its own. */
  readonly put = async (
    target: string,
    seed: number,
    sizeBytes = 1000 + seed,
    sending: Sending = {},
  ) => {
    const body = seededBytes(seed, sizeBytes);
    const { headers } = await this.ask('PUT', target, { ...sending, body });
    return String(headers['x-amz-version-id']);
  };

  readonly tag = (target: string, value: string) => {
    const set = `<TagSet><Tag><Key>t</Key><Value>${value}</Value></Tag></TagSet>`;
    const text = `<Tagging>${set}</Tagging>`;
    return this.ask('PUT', target, { query: [['tagging', '']], ...digested(text) });
  };

  readonly rename = (from: string, to: string) => {
    const headers = { 'x-amz-rename-source': from };
    return this.ask('PUT', to, { query: [['renameObject', '']], headers });
  };

  readonly native = async (method: string, target: string, content?: object) => {
    const { body } = await this.ask(method, `/_/v1/tenants/default/${target}`, {
      ...(content && {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(content)),
      }),
    });
    return body.length === 0 ? null : JSON.parse(body.toString());
  };

  /** A snapshot, and a mount of it. */
  readonly freeze = async (bucket: string, name: string, more: object = {}) => {
    await this.native('PUT', `buckets/${bucket}/snapshots/${name}`, more);
    const to = { bucketTenant: 'default', bucket, at: name };
    await this.native('PUT', `mounts/${bucket}-${name}`, to);
  };

  enableVersions(bucket: string) {
    const text = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    return this.ask('PUT', `/${bucket}`, { query: [['versioning', '']], ...digested(text) });
  }

  readonly note = async (...buckets: string[]) => {
    for (const bucket of buckets) this.shown.set(bucket, await this.#look(bucket));
  };

  async expectAll(): Promise<void> {
    for (const [bucket, before] of this.shown) {
      expect([bucket, await this.#look(bucket)]).toEqual([bucket, before]);
    }
  }

  readonly listed = async (bucket: string) => {
    const { snapshots, heldBytes } = await this.native('GET', `buckets/${bucket}/snapshots`);
    // A rebuild numbers anew.
    return { snapshots: snapshots.map((one: object) => ({ ...one, index: 0 })), heldBytes };
  };

  /** All versions that a bucket or a mount shows, and what they are. */
  async #look(bucket: string): Promise<string[]> {
    const { body } = await this.ask('GET', `/${bucket}`, { query: [['versions', '']] });
    const found = body.toString().matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs);
    return Promise.all(
      [...found].map(async ([, kind, shown = '']) => {
        if (kind !== 'Version') return shown;
        const [, key] = /<Key>(.*?)<\/Key>/.exec(shown) ?? [];
        const [, id = ''] = /<VersionId>(.*?)<\/VersionId>/.exec(shown) ?? [];
        const path = `/${bucket}/${key}`;
        const query: [string, string][] = [['versionId', id]];
        const got = await this.ask('GET', path, { query });
        const tags = await this.ask('GET', path, { query: [...query, ['tagging', '']] });
        const digest = createHash('sha256').update(got.body).digest('hex');
        return `${shown} ${digest} ${tags.body}`;
      }),
    );
  }
}

/** S3 wants the digest of what is set. */
function digested(text: string) {
  const body = Buffer.from(text);
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  return { headers, body };
}
