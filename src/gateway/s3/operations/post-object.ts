// PostObject: a PutObject that comes as an HTML form, and answers as the form asks
// (gateway/s3/post-form.ts). Specification: "POST Object" of the Amazon S3 API reference.

import { percentEncode } from '../../../core/canonical-request.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import { renderXml } from '../../http/xml.ts';
import type { Operation } from '../operation.ts';
import type { PostForm } from '../post-form.ts';
import type { Reserved } from '../stages.ts';
import { putObject, storeObject } from './put-object.ts';

export const postObject: Operation<'object'> = { ...putObject, run };

async function run(context: Reserved<'object'>): Promise<Reply> {
  const form = context.request.form as PostForm;
  const status = form.successUrl ? 303 : form.successStatus;
  const made = await storeObject(context, status);
  const { etag = '' } = made;
  if (form.successUrl) {
    const location = redirectTo(form.successUrl, context, etag);
    return emptyReply(status, { ...made, location });
  }
  const location = locationOf(context);
  const headers = { ...made, location };
  if (status !== 201) return emptyReply(status, headers);
  const { askedName: Bucket, key: Key } = context;
  const body = renderXml('PostResponse', { Location: location, Bucket, Key, ETag: etag }, null);
  return { status, headers: { ...headers, 'content-type': 'application/xml' }, body };
}

function redirectTo(url: URL, { askedName, key }: Reserved<'object'>, etag: string): string {
  const told = Object.entries({ bucket: askedName, key, etag }).map(
    ([name, value]) => `${name}=${percentEncode(value, false)}`,
  );
  const target = new URL(url);
  target.search = [target.search.slice(1), ...told].filter((part) => part !== '').join('&');
  return target.href;
}

/** As on S3 the host names the bucket, where it can: a dot or a colon may mean another there. */
function locationOf({ request, services, askedName, key }: Reserved<'object'>): string {
  const { headers, path, isSecure } = request;
  const host = headers.host ?? '';
  const isDomain = services.domains.includes(host.replace(/:\d+$/, '').toLowerCase());
  const inHost = isDomain && !/[.:]/.test(askedName);
  const origin = `${isSecure ? 'https' : 'http'}://${inHost ? `${askedName}.${host}` : host}`;
  // The path names the bucket, where the host does not.
  const folder = inHost ? '' : percentEncode(path.replace(/\/$/, ''), true);
  return `${origin}${folder}/${percentEncode(key, true)}`;
}
