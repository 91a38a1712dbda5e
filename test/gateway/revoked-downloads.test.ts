// Downloads that are under way when the right to them is taken away: cut, or let to their end where
// the operator wants that. The client stops reading, so that most is still to come.
import { get, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import {
  as,
  callNative,
  findRecords,
  newName,
  newPrincipal,
  patternOf,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';

/** More than the buffers of both sockets take. */
const content = patternOf(24 * 1024 * 1024);
const principals = '/_/v1/tenants/default/principals';

let target: Target;
beforeAll(async () => {
  target = await startEmbeddedTarget();
  await fill(target);
}, 60_000);
afterAll(() => target?.stop(), 60_000);

async function fill(at: Target): Promise<void> {
  await send(at, { method: 'PUT', path: '/data' });
  const stored = await send(at, { method: 'PUT', path: '/data/large', body: content });
  expect(stored.status, stored.text).toBe(200);
}

/** The answer to a GET, of which nothing is read yet. */
function begin(
  at: Target,
  path: string,
  headers: Record<string, string>,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(at.endpoint);
    const asked = get({ hostname, port, path, headers, agent: false }, resolve);
    asked.on('error', reject);
  });
}

function beginAs(who: Target): Promise<IncomingMessage> {
  const { path, headers } = signMessage(who, { method: 'GET', path: '/data/large' });
  return begin(who, path, headers);
}

/** Reads to the end, whichever it is; gives how much that was. */
async function readOn(response: IncomingMessage): Promise<{ bytes: number; isWhole: boolean }> {
  expect(response.statusCode).toBe(200);
  let bytes = 0;
  try {
    for await (const piece of response) bytes += (piece as Buffer).length;
    return { bytes, isWhole: response.complete };
  } catch {
    return { bytes, isWhole: false };
  }
}

async function newReader(at: Target): Promise<{ name: string; reader: Target }> {
  const name = newName('reader');
  return { name, reader: as(at, await newPrincipal(at, { name, role: 'admin' })) };
}

it('are cut when their principal is switched off, as the record says', async () => {
  const { name, reader } = await newReader(target);
  const other = await newReader(target);
  const [cut, free] = [await beginAs(reader), await beginAs(other.reader)];
  await callNative(target, 'PATCH', `${principals}/${name}`, { active: false });
  const { bytes, isWhole } = await readOn(cut);
  expect(isWhole).toBe(false);
  expect(bytes).toBeLessThan(content.length);
  expect(await readOn(free)).toEqual({ bytes: content.length, isWhole: true });
  // Reads are recorded within a moment.
  const record = await vi.waitUntil(
    async () => (await findRecords(target, [['principal', name]]))[0],
    { timeout: 20_000 },
  );
  expect(record).toMatchObject({
    action: 's3:GetObject',
    status: 403,
    error: 'InvalidAccessKeyId',
  });
  expect(record.bytesOut).toBeGreaterThanOrEqual(bytes);
  expect(record.bytesOut).toBeLessThan(content.length);
});

it('are cut when a share link is revoked, and when its token is', async () => {
  const { reader } = await newReader(target);
  const wish = { bucket: 'data', key: 'large', expiresIn: 600 };
  const share = await callNative(reader, 'POST', '/_/v1/shares', wish);
  const scope = 'storage.read:/data';
  const issued = await callNative(reader, 'POST', '/_/v1/tokens', { scope, expiresIn: 600 });
  const shared = await begin(target, share.url.slice(target.endpoint.length), {});
  const borne = await begin(target, '/data/large', { authorization: `Bearer ${issued.token}` });
  await callNative(reader, 'DELETE', `/_/v1/shares/${share.id}`);
  await callNative(reader, 'DELETE', `/_/v1/tokens/${issued.jti}`);
  for (const response of [shared, borne]) {
    expect((await readOn(response)).isWhole).toBe(false);
  }
});

it('may end where the operator lets them', async () => {
  const gateway = await startServedGateway({ args: ['--revoked-downloads', 'finish'] });
  try {
    const { endpoint, accessKeyId, secretAccessKey } = gateway;
    const keys = { accessKeyId, secretAccessKey };
    const lenient: Target = { ...target, endpoint, keys };
    await fill(lenient);
    const { name, reader } = await newReader(lenient);
    const response = await beginAs(reader);
    await callNative(lenient, 'PATCH', `${principals}/${name}`, { active: false });
    expect(await readOn(response)).toEqual({ bytes: content.length, isWhole: true });
    const { path, headers } = signMessage(reader, { method: 'GET', path: '/data/large' });
    const refused = await begin(lenient, path, headers);
    expect(refused.statusCode).toBe(403);
    refused.resume();
  } finally {
    await gateway.stop();
  }
}, 60_000);
