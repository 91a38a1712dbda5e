// How commands are told a bucket, and what is in it: as TENANT/NAME, or as S3 clients write it.
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';

export interface NamedPlace {
  tenant: string;
  bucket: string;
  /** A key or a prefix; empty: none was given. */
  key: string;
}

/**
 * `s3://raw/key` of the caller's own tenant, `s3://cms:raw/key` of another, or `cms/raw`. Throws
 * `CommandFailure`.
 */
export async function findPlace(connection: Connection, text: string): Promise<NamedPlace> {
  const [, ofTenant, named] = /^([^/:]+)\/([^/:]+)$/.exec(text) ?? [];
  if (ofTenant !== undefined && named !== undefined) {
    return { tenant: ofTenant, bucket: named, key: '' };
  }
  const [, tenant, bucket, key = ''] =
    /^s3:\/\/(?:([^/:]+):)?([^/:]+)(?:\/(.*))?$/s.exec(text) ?? [];
  if (bucket === undefined) {
    throw new CommandFailure(
      'usage',
      `${text} must be s3://BUCKET or s3://BUCKET/KEY, s3://TENANT:BUCKET or TENANT/BUCKET`,
    );
  }
  return { tenant: tenant ?? (await findTenant(connection)), bucket, key };
}

/** A bucket's snapshots. */
export interface SnapshotsPlace {
  tenant: string;
  bucket: string;
  /** Of the keys that are meant; undefined: all. */
  prefix: string | undefined;
  path: readonly string[];
}

/**
 * Where the snapshots are of a bucket that is named as above; a prefix may be said in the URL or by
 * a flag. Throws `CommandFailure`.
 */
export async function findSnapshots(
  connection: Connection,
  text: string,
  prefix?: string,
): Promise<SnapshotsPlace> {
  const { tenant, bucket, key } = await findPlace(connection, text);
  if (key !== '' && prefix !== undefined) {
    throw new CommandFailure('usage', `give the prefix either in ${text} or by --prefix`);
  }
  const path = ['tenants', tenant, 'buckets', bucket, 'snapshots'];
  return { tenant, bucket, prefix: key === '' ? prefix : key, path };
}

export async function findTenant(connection: Connection): Promise<string> {
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  return (json as Answers['WhoAmI']).tenant;
}
