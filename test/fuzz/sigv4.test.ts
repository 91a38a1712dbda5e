// Signed requests, by SigV4 and SigV4A, changed at random: only those that still say the same
// authenticate, and nothing but a Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import type { Identity, SignedRequest } from '#bursar/authz/authenticate.js';
import { signRequest } from '#bursar/core/sigv4.js';
import {
  type AsymmetricRequest,
  asymmetricAuthenticator,
  asymmetricPresigned,
  asymmetricRequest,
} from '../authz/asymmetric.ts';
import {
  accessKeyId,
  exampleAuthenticator,
  exampleMs,
  region,
  request,
  secret,
} from '../authz/requests.ts';
import { presignUrl } from '../tooling/presign.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;
type Pair = readonly [string, string];

const credentials = { accessKeyId, secret, region, timeMs: exampleMs };
const authenticator = exampleAuthenticator();
const ofPublicKeys = asymmetricAuthenticator();
const letters = [
  'a',
  'B',
  '0',
  '-',
  '~',
  '/',
  '%',
  '+',
  ' ',
  '&',
  '=',
  ';',
  '"',
  'é',
  '日',
  '🙂',
  '\ud800',
];

function text(random: Random, lengthMax: number, of: readonly string[] = letters): string {
  let out = '';
  for (let i = randomBelow(random, lengthMax + 1); i > 0; i--) out += randomOf(random, of);
  return out;
}

/** Lone surrogates as U+FFFD, which is what they are in UTF-8. */
function wellFormed(original: string): string {
  return Buffer.from(original, 'utf8').toString('utf8');
}

function pairs(random: Random, countMax: number): Pair[] {
  return Array.from({ length: randomBelow(random, countMax + 1) }, () => [
    `q${text(random, 4)}`,
    text(random, 6),
  ]);
}

function signedByHeader(random: Random): SignedRequest {
  const method = randomOf(random, ['GET', 'PUT', 'DELETE', 'POST', 'HEAD']);
  const path = `/${text(random, 12)}`;
  const query = pairs(random, 4);
  const headers: Record<string, string> = { host: '127.0.0.1:9000' };
  for (let i = randomBelow(random, 4); i > 0; i--) {
    headers[`x-amz-meta-${i}`] = text(random, 6, ['a', ' ', ',', 'é', '\t', '=']).trim();
  }
  const added = signRequest({ ...credentials, method, path, query, headers });
  const all = Object.entries({ ...headers, ...added });
  return { ...request(method, '/', all), path, query };
}

function presigned(random: Random): SignedRequest {
  const url = presignUrl({
    ...credentials,
    method: 'GET',
    origin: 'http://127.0.0.1:9000',
    path: `/${wellFormed(text(random, 12))}`,
    query: pairs(random, 3).map(([name, value]) => [wellFormed(name), wellFormed(value)]),
    expiresSeconds: 60,
  });
  const target = url.slice('http://127.0.0.1:9000'.length);
  return request('GET', target, [['host', '127.0.0.1:9000']]);
}

function randomParts(random: Random): AsymmetricRequest {
  return {
    method: randomOf(random, ['GET', 'PUT', 'DELETE']),
    path: `/${wellFormed(text(random, 12))}`,
    query: pairs(random, 3).map(([name, value]) => [wellFormed(name), wellFormed(value)]),
    regionSet: randomOf(random, ['*', 'us-east-1', 'us-east-1,eu-*']),
  };
}

/** One character of a text dropped, doubled, or replaced. */
function changeText(random: Random, original: string): string {
  const at = randomBelow(random, original.length + 1);
  const put = randomOf(random, ['', ...letters, original.charAt(at).repeat(2)]);
  return original.slice(0, at) + put + original.slice(at + 1);
}

function change(random: Random, original: SignedRequest): SignedRequest {
  const query = [...original.query];
  const headers = { ...original.headers };
  switch (randomBelow(random, 6)) {
    case 0:
      return { ...original, method: changeText(random, original.method) };
    case 1:
      return { ...original, path: changeText(random, original.path) };
    case 2: {
      const at = randomBelow(random, query.length + 1);
      const [name, value] = query[at] ?? ['', ''];
      const both: Pair =
        random() < 0.5 ? [changeText(random, name), value] : [name, changeText(random, value)];
      query.splice(at, randomBelow(random, 2), both);
      return { ...original, query };
    }
    case 3:
      query.splice(randomBelow(random, query.length + 1), 1);
      return { ...original, query };
    case 4: {
      const name = randomOf(random, Object.keys(headers));
      headers[name] = changeText(random, String(headers[name]));
      break;
    }
    default: {
      const name = randomOf(random, [...Object.keys(headers), 'x-amz-acl', 'x-amz-meta-9']);
      if (random() < 0.5) delete headers[name];
      else headers[name] = text(random, 5);
    }
  }
  return { ...original, headers, rawHeaders: Object.entries(headers).flat().map(String) };
}

/** All of a request that its signature covers, in a form that equal meaning makes equal. */
function meaning({ method, path, query, headers }: SignedRequest): string {
  const tidy = (value: string) => value.replace(/[ \t]+/g, ' ').replace(/^ | $/g, '');
  const { authorization, ...others } = headers;
  const sorted = query.map((pair) => JSON.stringify(pair.map(wellFormed))).sort();
  return JSON.stringify([
    method,
    wellFormed(path),
    sorted,
    Object.entries(others)
      .map(([name, value]) => [name, tidy(String(value))])
      .sort(),
    // The components' order and the spaces around them carry no meaning.
    String(authorization ?? '')
      .split(/,/)
      .map((part) => part.replace(/^AWS4-(HMAC|ECDSA-P256)-SHA256 /, '').trim())
      .sort(),
  ]);
}

async function attempt(
  changed: SignedRequest,
  by = authenticator,
): Promise<Identity | null | 'refused'> {
  try {
    return await by.authenticate(changed);
  } catch (error) {
    if (error instanceof Error && error.name === 'Refusal') return 'refused';
    throw error;
  }
}

describe('signature verification, fuzzed', () => {
  it.each([
    ['a signed request', signedByHeader, 10_000],
    ['a presigned request', presigned, 20_000],
  ] as const)('%s authenticates', { timeout: fuzzTimeoutMs }, async (_title, make, seedBase) => {
    await fuzz(seedBase, 300, async (random) => {
      expect(await attempt(make(random))).toMatchObject({ accessKeyId });
    });
  });

  it.each([
    ['a signed request', signedByHeader, 30_000],
    ['a presigned request', presigned, 40_000],
  ] as const)(
    '%s that was changed authenticates only if it still says the same',
    { timeout: fuzzTimeoutMs },
    async (_title, make, seedBase) => {
      let refused = 0;
      await fuzz(seedBase, 3_000, async (random) => {
        const original = make(random);
        const changed = change(random, original);
        const outcome = await attempt(changed);
        if (outcome === 'refused') refused++;
        else if (outcome !== null) expect(meaning(changed)).toBe(meaning(original));
      });
      expect(refused).toBeGreaterThan(1_000);
    },
  );

  it.each([
    ['an asymmetric request', asymmetricRequest, 50_000],
    ['an asymmetric presigned request', asymmetricPresigned, 60_000],
  ] as const)(
    '%s authenticates, and one that was changed only if it still says the same',
    { timeout: fuzzTimeoutMs },
    async (_title, make, seedBase) => {
      let refused = 0;
      await fuzz(seedBase, 250, async (random) => {
        const original = make(randomParts(random));
        expect(await attempt(original, ofPublicKeys)).not.toBe('refused');
        for (let i = 0; i < 5; i++) {
          const changed = change(random, original);
          const outcome = await attempt(changed, ofPublicKeys);
          if (outcome === 'refused') refused++;
          else if (outcome !== null) expect(meaning(changed)).toBe(meaning(original));
        }
      });
      expect(refused).toBeGreaterThan(500);
    },
  );
});
