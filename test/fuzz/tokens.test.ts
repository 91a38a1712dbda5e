// Tokens and proofs changed at random, by strangers and by holders who sign what they like: nothing
// gets wider, and nothing but a Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import type { Chain } from '#bursar/authz/tokens/chain.js';
import { hashToken } from '#bursar/authz/tokens/chain.js';
import { createProof, verifyProof } from '#bursar/authz/tokens/proof.js';
import { covers, parseScope, type Scope, type Wanted } from '#bursar/authz/tokens/scope.js';
import {
  chainOf,
  claimsOf,
  forgeLast,
  hour,
  issue,
  jobKey,
  now,
  shrink,
  verify,
} from '../authz/tokens/fixture.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const pieces = [
  'a',
  'ab',
  'b',
  'A',
  '/',
  '/',
  '//',
  '.',
  '..',
  '%2F',
  '%2e',
  '%25',
  '%C3%A9',
  '%00',
];
const keyPieces = [
  'a',
  'ab',
  'b',
  'A',
  '/',
  '/',
  '//',
  '.',
  '..',
  '%2F',
  '\u00e9',
  'e\u0301',
  '\0',
];
const rights = ['read', 'create', 'modify', 'stage'];
const wantedAll: Wanted[] = ['read', 'create', 'modify', 'stage', 'list', 'stat'];

function textOf(random: Random, from: readonly string[], countMax: number): string {
  return Array.from({ length: randomBelow(random, countMax + 1) }, () =>
    randomOf(random, from),
  ).join('');
}

function scopeText(random: Random): string {
  const entries = Array.from({ length: 1 + randomBelow(random, 3) }, () => {
    const path = `/${randomOf(random, ['a', 'b', ''])}${textOf(random, pieces, 5)}`;
    return `storage.${randomOf(random, rights)}:${path}`;
  });
  return entries.join(' ');
}

function readableScope(random: Random): string {
  for (;;) {
    const text = scopeText(random);
    try {
      parseScope(text);
      return text;
    } catch {
      // Another one.
    }
  }
}

async function attempt<T>(work: () => T | Promise<T>): Promise<T | 'refused'> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.name === 'Refusal') return 'refused';
    throw error;
  }
}

/** Whatever `inner` allows of some random requests, `outer` allows too. */
function expectNoWider(random: Random, inner: Scope, outer: Scope): void {
  for (let i = 0; i < 40; i++) {
    const wanted = randomOf(random, wantedAll);
    const bucket = randomOf(random, ['a', 'b', 'ab', 'A']);
    const key = textOf(random, keyPieces, 5);
    if (!covers(inner, wanted, bucket, key)) continue;
    const request = `${wanted} ${bucket}/${JSON.stringify(key)}`;
    expect(covers(outer, wanted, bucket, key), request).toBe(true);
  }
}

describe('tokens, fuzzed', () => {
  it('a text that was changed anywhere is refused', { timeout: fuzzTimeoutMs }, async () => {
    const tokens = [issue(), chainOf(2), chainOf(3)];
    const letters = 'AZaz09-_.~=+/ \n%"';
    await fuzz(50_000, 600, async (random) => {
      const token = randomOf(random, tokens);
      const at = randomBelow(random, token.length);
      const put = randomOf(random, ['', ...letters, token.slice(at, at + randomBelow(random, 9))]);
      const changed = token.slice(0, at) + put + token.slice(at + 1);
      if (changed === token) return;
      expect(await attempt(() => verify(changed))).toBe('refused');
    });
  });

  it('what is no token is refused, whatever it is', { timeout: fuzzTimeoutMs }, async () => {
    const parts = ['~', '.', 'e30', 'bnVsbA', '=', '{}', 'a'.repeat(100), '\0', '\u00e9', '\ud800'];
    await fuzz(60_000, 600, async (random) => {
      expect(await attempt(() => verify(textOf(random, parts, 30)))).toBe('refused');
    });
  });

  it('a holder who signs any claims gets no more', { timeout: fuzzTimeoutMs }, async () => {
    let taken = 0;
    await fuzz(70_000, 600, async (random) => {
      const parent = issue({ scope: parseScope(readableScope(random)), depthMax: 2 });
      const honest = shrink(parent, { holder: jobKey.publicKey });
      const claims = claimsOf(honest);
      const values: unknown[] = [0, 1, 2, 3, -1, null, '', 'x', [], {}, now / 1000, undefined];
      const change = { scope: random() < 0.5 ? scopeText(random) : claims.scope };
      const name = randomOf(random, Object.keys(claims));
      const value = randomOf(random, values);
      const more = random() < 0.5 || name === 'scope' ? {} : { [name]: value };
      const forged = forgeLast(honest, jobKey, { ...change, ...more });
      const [before, after] = [await verify(parent), await attempt(() => verify(forged))];
      if (after === 'refused') return;
      taken++;
      expectNoWider(random, after.scope, before.scope);
      expectSameOtherwise(after, before);
    });
    expect(taken).toBeGreaterThan(100);
  });

  function expectSameOtherwise(after: Chain, before: Chain): void {
    expect(after.subject).toBe(before.subject);
    expect(after.expiresAtMs).toBeLessThanOrEqual(before.expiresAtMs);
    expect(after.depth).toBe(before.depth + 1);
    expect(after.ids[0]).toBe(before.ids[0]);
    expect(after.links[1]?.depthMax).toBeLessThanOrEqual(before.links[0]?.depthMax as number);
  }

  it('shrunk honestly is taken, and is no wider', { timeout: fuzzTimeoutMs }, async () => {
    let made = 0;
    await fuzz(80_000, 400, async (random) => {
      let token = issue({ scope: parseScope(readableScope(random)) });
      for (let i = 0; i < 3; i++) {
        const before = await verify(token);
        const scope = parseScope(readableScope(random));
        const expiresAtMs = now + (1 + randomBelow(random, 14)) * hour;
        const holder = jobKey.publicKey;
        const next = await attempt(() => shrink(token, { scope, expiresAtMs, holder }));
        if (next === 'refused') continue;
        made++;
        const after = await verify(next);
        expectNoWider(random, after.scope, before.scope);
        expect(after.expiresAtMs).toBeLessThanOrEqual(before.expiresAtMs);
        token = next;
      }
    });
    expect(made).toBeGreaterThan(50);
  });
});

describe('proofs, fuzzed', () => {
  const token = chainOf(2);
  const url = 'https://s3.example.org/a/b?c=d';
  const request = { method: 'PUT', url, headers: { 'x-amz-acl': 'private' } };
  const expected = { key: jobKey.publicKey, tokenHash: hashToken(token), nowMs: now };

  it.each(['message-signature', 'dpop'] as const)(
    'a %s that was changed anywhere is refused',
    { timeout: fuzzTimeoutMs },
    async (kind) => {
      const contentSha256 = kind === 'dpop' ? undefined : Buffer.alloc(32, 1);
      const made = createProof(request, { key: jobKey, token, kind, contentSha256, nowMs: now });
      const headers: Record<string, string> = { ...request.headers, ...made };
      const whole = { ...request, headers, hasBody: kind !== 'dpop' };
      expect(await attempt(() => verifyProof(whole, expected))).not.toBe('refused');
      // DPoP covers its own header alone.
      const names = kind === 'dpop' ? ['dpop'] : Object.keys(headers);
      await fuzz(90_000, 600, async (random) => {
        const name = randomOf(random, names);
        const value = headers[name] as string;
        const at = randomBelow(random, value.length);
        const put = randomOf(random, ['', ...'Aa0-_."();=,: @', value.slice(at, at + 5)]);
        const changed = value.slice(0, at) + put + value.slice(at + 1);
        if (changed.trim() === value) return;
        const sent = { ...whole, headers: { ...headers, [name]: changed } };
        expect(await attempt(() => verifyProof(sent, expected))).toBe('refused');
      });
    },
  );
});
