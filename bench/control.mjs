// Untimed requests around the timed ones: make buckets, check what was stored, delete.
import { createHash, hash } from 'node:crypto';
import { request } from 'node:http';
import { signRequest } from '#bursar/core/sigv4.js';
import { makeSigner } from './signing.mjs';

/**
 * Sends one request, signed unless `isUnsigned`, on a connection of its own unless there is an
 * `agent`.
 * @returns {Promise<{status: number, body: Buffer}>}
 */
export function send(target, message) {
  const { method, path, query, body, agent = false, isUnsigned = false } = message;
  const sent = body && { sizeBytes: body.length, sha256: hash('sha256', body, 'hex') };
  const headers = isUnsigned ? {} : signedHeaders(target, { method, path, query, ...sent });
  const url = `${path}${query ? `?${query}` : ''}`;
  return new Promise((resolve, reject) => {
    const { host, port } = target;
    const asked = request({ host, port, method, path: url, headers, agent }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode, body: Buffer.concat(parts) }));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

function signedHeaders(target, message) {
  const head = makeSigner(target)(message).toString('latin1');
  const lines = head.trimEnd().split('\r\n').slice(1);
  return Object.fromEntries(lines.map((line) => line.split(/: (.*)/, 2)));
}

/**
 * Asks the native API; gives what it answers. `path`: the parts behind `/_/v1/`. Throws unless it
 * succeeds.
 */
export async function callNative(target, method, path, body) {
  const { host, port, accessKeyId, secretAccessKey: secret } = target;
  const text = body === undefined ? '' : JSON.stringify(body);
  const headers = { host: `${host}:${port}`, ...(text && { 'content-type': 'application/json' }) };
  const signed = signRequest({
    ...{ accessKeyId, secret, region: 'us-east-1', method, path: `/_/v1/${path.join('/')}` },
    ...{ query: [], headers, payloadHash: hash('sha256', text, 'hex'), timeMs: Date.now() },
  });
  const url = `http://${host}:${port}/_/v1/${path.map(encodeURIComponent).join('/')}`;
  const sent = { method, headers: { ...headers, ...signed }, body: text || undefined };
  const answer = await fetch(url, sent);
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path.join(' ')}: ${answer.status} ${said}`);
  return said && JSON.parse(said);
}

/** Throws unless the bucket was made. */
export async function makeBucket(target, bucket) {
  const { status, body } = await send(target, { method: 'PUT', path: `/${bucket}` });
  if (status !== 200) throw new Error(`PUT /${bucket}: ${status} ${body}`);
}

/** Throws unless each key has these bytes. */
export async function checkObjects(target, { bucket, keys, body }) {
  const wanted = createHash('sha256').update(body).digest('hex');
  for (const key of keys) {
    const answer = await send(target, { method: 'GET', path: `/${bucket}/${key}` });
    const seen = createHash('sha256').update(answer.body).digest('hex');
    if (answer.status !== 200 || seen !== wanted) {
      throw new Error(`GET /${bucket}/${key}: ${answer.status}, not the bytes that were stored`);
    }
  }
}

/** Throws unless a listing after `startAfter` is a full page that begins with `firstKey`. */
export async function checkListing(target, { bucket, startAfter, firstKey, count }) {
  const query = `list-type=2&max-keys=1000&start-after=${encodeURIComponent(startAfter)}`;
  const { body } = await send(target, { method: 'GET', path: `/${bucket}`, query });
  const keys = [...String(body).matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1]);
  if (keys.length !== count || keys[0] !== firstKey) {
    throw new Error(`listing of ${bucket}: ${keys.length} keys from ${keys[0]}`);
  }
}

/** Deletes keys, so that a bench does not fill the disk. */
export async function deleteObjects(target, { bucket, keys }) {
  for (const key of keys) await send(target, { method: 'DELETE', path: `/${bucket}/${key}` });
}
