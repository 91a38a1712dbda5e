// How commands are told a bucket, and what is in it: as TENANT/NAME, or as S3 clients write it.
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { splitId } from './command-arguments.ts';

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
  if (!text.startsWith('s3://')) {
    const [tenant, bucket] = splitId(text);
    return { tenant, bucket, key: '' };
  }
  const [, tenant, bucket, key = ''] =
    /^s3:\/\/(?:([^/:]+):)?([^/:]+)(?:\/(.*))?$/s.exec(text) ?? [];
  if (bucket === undefined) {
    throw new CommandFailure(
      'usage',
      `${text} must be s3://BUCKET, s3://BUCKET/KEY or TENANT/BUCKET`,
    );
  }
  return { tenant: tenant ?? (await findTenant(connection)), bucket, key };
}

async function findTenant(connection: Connection): Promise<string> {
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  return (json as Answers['WhoAmI']).tenant;
}
