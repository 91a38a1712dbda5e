// Objects that fit a query, as commands read them: page by page, from each place that was named.
import type { FoundObject, FoundObjects } from '../gateway/find/find-schema.ts';
import { type Connection, callPatiently } from './api-client.ts';
import { findPlace, type NamedPlace } from './bucket-names.ts';

export interface Asked {
  connection: Connection;
  /** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
  urls: readonly string[];
  query: string;
}

/** An object, and where it is. */
export interface Placed extends FoundObject {
  url: string;
}

/** In the order of keys, bucket by bucket. Rejects with `CommandFailure`. */
export async function* readObjects(asked: Asked, limit = Infinity): AsyncGenerator<Placed> {
  let left = limit;
  for (const url of asked.urls) {
    const place = await findPlace(asked.connection, url);
    const base = url.slice(0, url.length - place.key.length).replace(/\/?$/, '/');
    for await (const { objects } of readPages(asked, place, left)) {
      for (const one of objects) {
        yield { url: `${base}${one.key}`, ...one };
        left -= 1;
        if (left === 0) return;
      }
    }
  }
}

export async function* readPages(
  { connection, query: where }: Asked,
  { tenant, bucket, key }: NamedPlace,
  limit: number,
  more: Record<string, string> = {},
): AsyncGenerator<FoundObjects> {
  const path = ['tenants', tenant, 'buckets', bucket, 'objects'];
  const prefix = key === '' ? undefined : key;
  let after: string | undefined;
  do {
    const most = limit < 1000 ? String(limit) : undefined;
    const query = { where, prefix, after, limit: most, ...more };
    const page = (await callPatiently(connection, { path, query })).json as FoundObjects;
    yield page;
    after = page.next ?? undefined;
  } while (after !== undefined);
}
