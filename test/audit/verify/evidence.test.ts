// What a receipt proves of its client: by a request that was signed with SigV4A, and by the receipt
// of the key's enrolment.
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { renderEvidence } from '#bursar/audit/evidence.js';
import type { Opening } from '#bursar/audit/receipt.js';
import { whyNotEnrolment } from '#bursar/audit/verify/proven-evidence.js';
import { type VerifiedReceipt, verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { describeReceipt } from '#bursar/audit/verify/statement.js';
import { canonicalize } from '#bursar/core/canonical-json.js';
import type { EvidenceJwk, SignedPart } from '#bursar/core/evidence.js';
import { fuzz, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { openingOf, RecordedLog } from './recorded-log.ts';

/** They are computed in well under a second, on a machine that has nothing else to do. */
vi.setConfig({ testTimeout: 60_000 });

const body = createHash('sha256').update('hello').digest('hex');

interface Holder {
  privateKey: KeyObject;
  jwk: EvidenceJwk;
  thumbprint: string;
}

function makeHolder(): Holder {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x = '', y = '' } = privateKey.export({ format: 'jwk' });
  const jwk = { crv: 'P-256', kty: 'EC', x, y } as const;
  const thumbprint = createHash('sha256').update(JSON.stringify(jwk)).digest('base64url');
  return { privateKey, jwk, thumbprint };
}

const alice = makeHolder();

/** That she put `hello` there. */
function signPut({ privateKey, jwk, thumbprint }: Holder, path: string, more = {}): SignedPart {
  const headers = `host:bursar\nx-amz-content-sha256:${body}\n`;
  const canonicalRequest = `PUT\n${path}\n\n${headers}\nhost;x-amz-content-sha256\n${body}`;
  const digest = createHash('sha256').update(canonicalRequest).digest('hex');
  const signed = `AWS4-ECDSA-P256-SHA256\n20260921T140000Z\n20260921/s3/aws4_request\n${digest}`;
  const signature = sign('sha256', Buffer.from(signed), privateKey).toString('base64url');
  const part = { kind: 'sigv4a', jwk, thumbprint, signed, signature, canonicalRequest } as const;
  return { ...part, enrolledAt: 0, ...more };
}

/** That she asked for the key to be hers. */
function signEnrolment({ privateKey, jwk, thumbprint }: Holder, sub: string): SignedPart {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const header = encode({ typ: 'bursar-key-proof+jwt', alg: 'ES256' });
  const signed = `${header}.${encode({ sub, thumbprint, iat: 1_790_000_000 })}`;
  const signature = sign('sha256', Buffer.from(signed), {
    key: privateKey,
    dsaEncoding: 'ieee-p1363',
  }).toString('base64url');
  return { kind: 'key-proof', jwk, thumbprint, signed, signature };
}

function openingWith(index: number, parts: SignedPart[], more: Record<string, unknown>): Opening {
  const { text, hash } = renderEvidence({ parts, replayableUntilMs: null });
  const opening = openingOf(index, { ...more, evidenceHash: hash });
  return { ...opening, evidence: JSON.parse(text) };
}

const put = (index: number, part: SignedPart, more = {}): Opening =>
  openingWith(index, [part], {
    ...{ evidence: 'body-signed', keyThumbprint: alice.thumbprint, accessKeyId: null },
    ...{ key: 'hello.txt', sha256: body, ...more },
  });

function enrol(index: number, { jwk, thumbprint }: Holder, part: SignedPart, more = {}): Opening {
  return openingWith(index, [part], {
    ...{ action: 'bursar:CreatePublicKey', status: 201, bucket: null, key: null, sha256: null },
    ...{ target: `tenants/cms/principals/alice/public-keys/${thumbprint}` },
    ...{ change: { jwk, thumbprint }, ...more },
  });
}

async function judge(openings: Opening[]): Promise<ReturnType<typeof verifyReceipt>[]> {
  const log = new RecordedLog(openings);
  return Promise.all(
    openings.map(async (_, index) => {
      return verifyReceipt(await log.receipt(index), { keys: [log.signer.key] });
    }),
  );
}

async function receiptsOf(openings: Opening[]): Promise<VerifiedReceipt[]> {
  const found = await judge(openings);
  return found.map((one) => {
    if (!one.ok) throw new Error(one.why);
    return one;
  });
}

describe("a client's own signature", () => {
  it('is proven with the receipt of what it signed, and by the enrolment whose it is', async () => {
    const openings = [
      enrol(0, alice, signEnrolment(alice, 'cms/alice')),
      put(1, signPut(alice, '/raw/hello.txt')),
    ];
    const [enrolment, receipt] = await receiptsOf(openings);
    if (!enrolment || receipt?.evidence.state !== 'proven') throw new Error('not proven');
    const owner = { thumbprint: alice.thumbprint, enrolledAt: 0 };
    expect(receipt.evidence.owner).toEqual(owner);
    expect(whyNotEnrolment(enrolment, owner, receipt.record)).toBeNull();
    const { proves, provesNot } = describeReceipt(receipt);
    expect(proves).toContain(`that the key ${alice.thumbprint} signed the request`);
    expect(provesNot).toContain('that the key is of cms/alice, as the receipt of record 0 would');
    const whole = describeReceipt(receipt, true);
    expect(whole.proves).toContain('record 0 enrolled that key for cms/alice');
    expect(whole.provesNot).toContain('who besides cms/alice had the key');
  });

  it('is not proven by the enrolment of another key, principal or place', async () => {
    const other = makeHolder();
    const proof = signEnrolment(alice, 'cms/alice');
    const target = `tenants/cms/principals/bob/public-keys/${alice.thumbprint}`;
    const openings = [
      enrol(0, other, signEnrolment(other, 'cms/alice')),
      enrol(1, alice, proof),
      enrol(2, alice, signEnrolment(alice, 'cms/bob'), { target }),
      enrol(3, alice, signEnrolment(alice, 'cms/bob')),
      enrol(4, alice, proof, { status: 403, error: 'AccessDenied' }),
      { ...enrol(5, alice, proof), evidence: null },
      put(6, signPut(alice, '/raw/hello.txt')),
    ];
    const receipts = await receiptsOf(openings);
    const record = receipts[6]?.record as VerifiedReceipt['record'];
    const why = (index: number, enrolledAt = index) => {
      const owner = { thumbprint: alice.thumbprint, enrolledAt };
      return whyNotEnrolment(receipts[index] as VerifiedReceipt, owner, record);
    };
    expect(why(0)).toBe('record 0 enrols no such key');
    expect(why(1)).toBeNull();
    expect(why(1, 0)).toBe('the key was enrolled by record 0, not 1');
    expect(why(2)).toBe('record 2 enrols no such key');
    expect(why(3)).toBe("the key's holder did not sign what record 3 says");
    expect(why(4)).toBe('record 4 enrols no such key');
    expect(why(5)).toBe("the key's holder did not sign what record 5 says");
    expect(why(6)).toBe('record 6 enrols no such key');
  });

  it('does not pass where it is forged, or of another request, though logged', async () => {
    const good = signPut(alice, '/raw/hello.txt');
    const forged = { ...good, signature: signPut(makeHolder(), '/raw/hello.txt').signature };
    const found = await judge([
      put(0, forged),
      put(1, signPut(alice, '/raw/other.txt')),
      put(2, good, { sha256: 'f'.repeat(64) }),
      put(3, good, { keyThumbprint: makeHolder().thumbprint }),
      put(4, { ...good, canonicalRequest: `${good.canonicalRequest}0` }),
    ]);
    const whys = found.map((one) => (one.ok ? 'believed' : one.why));
    expect(whys).toEqual([
      expect.stringMatching(/^its evidence is false: the signature/),
      'its evidence is of something else: another key was signed',
      'its evidence is of something else: another body was signed',
      'its evidence is of something else: it is signed with another key',
      expect.stringMatching(/^its evidence is false: its canonical request/),
    ]);
  });

  it('is said to be unproven where it is not kept, or left out', async () => {
    const part = signPut(alice, '/raw/hello.txt');
    const large = { ...part, signed: `${part.signed}${'x'.repeat(30_000)}` };
    const openings = [put(0, large), { ...put(1, part), evidence: null }];
    const [unkept, left] = await receiptsOf(openings);
    if (!unkept || !left) throw new Error('not believed');
    expect(unkept.evidence.state).toBe('unproven');
    expect(describeReceipt(unkept).provesNot).toMatch(/what was signed is not kept/);
    expect(left.evidence.state).toBe('missing');
    expect(describeReceipt(left).provesNot).toMatch(/a later copy has it, mostly after/);
    expect(describeReceipt(left).proves).not.toContain('signed the request');
  });

  it('counts with each of its bytes', async () => {
    const openings = [put(0, signPut(alice, '/raw/hello.txt'))];
    const log = new RecordedLog(openings);
    const trust = { keys: [log.signer.key] };
    const bytes = Buffer.from(await log.receipt(0));
    expect(verifyReceipt(bytes, trust)).toMatchObject({ ok: true, evidence: { state: 'proven' } });
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (bytes[at] as number) ^ 1;
      expect(verifyReceipt(changed, trust).ok, `byte ${at}`).toBe(false);
    }
  });
});

describe('evidence of any form', () => {
  it('is judged and never thrown at, though the log itself vouches for it', async () => {
    const junk = [null, -1, 1e300, '', ' ', 'A', 'AA', '\u2028é', {}, [], [[]], true, 'eyJ9.e30'];
    const { evidence } = put(0, signPut(alice, '/raw/hello.txt'));
    const proof = enrol(0, alice, signEnrolment(alice, 'cms/alice')).evidence;
    await fuzz(9200, 400, async (random) => {
      const made = structuredClone(randomOf(random, [evidence, proof])) as Json;
      const members = { evidenceHash: '', ...randomOf(random, [{}, { tokens: ['a', 'b'] }]) };
      for (let edits = 1 + randomBelow(random, 3); edits > 0; edits -= 1) {
        alter(made, random, junk);
      }
      members.evidenceHash = createHash('sha256').update(canonicalize(made)).digest('base64url');
      const opening = { ...openingOf(0, { ...members, evidence: 'body-signed' }), evidence: made };
      const log = new RecordedLog([opening]);
      const found = verifyReceipt(await log.receipt(0), { keys: [log.signer.key] });
      const state = found.ok ? found.evidence.state : found.why;
      expect(state).toMatch(/^(?:unproven|proven|its evidence is .*|it is not a receipt.*)$/);
    });
  });
});

type Json = Record<string, unknown> | unknown[];

/** Puts something else in the place of a member, at any depth, or in its midst. */
function alter(value: Json, random: () => number, junk: readonly unknown[]): void {
  const names = Object.keys(value);
  if (names.length === 0) return;
  const name = randomOf(random, names) as keyof Json;
  const member = value[name] as unknown;
  const isDeep = typeof member === 'object' && member !== null;
  if (isDeep && randomBelow(random, 5) > 0) {
    alter(member as Json, random, junk);
    return;
  }
  const at = randomBelow(random, String(member).length);
  const cut = `${String(member).slice(0, at)}${randomOf(random, ['', '.', 'A', '\n', '"'])}`;
  const changed: unknown = randomBelow(random, 2) === 0 ? cut : randomOf(random, junk);
  Object.assign(value, { [name]: changed });
}

describe('what a receipt does not prove', () => {
  it('is said for each grade of evidence, in one sentence', async () => {
    const openings = [
      openingOf(0),
      openingOf(1, { evidence: 'none', principal: '', action: 'bursar:BudgetAlarm', bucket: null }),
      openingOf(2, { status: 403, error: 'AccessDenied', bucketTenant: 'lab' }),
    ];
    const said = (await receiptsOf(openings)).map((one) => describeReceipt(one));
    expect(said[0]?.proves).toMatch(/^It proves that record 0 .* says: at .* cms\/alice did s3:/);
    expect(said[0]?.provesNot).toMatch(/asked for it, since the gateway knows the secret/);
    expect(said[1]?.proves).toMatch(/ cms did bursar:BudgetAlarm/);
    expect(said[1]?.provesNot).toMatch(/that anybody asked for it: the gateway did it by itself/);
    expect(said[2]?.proves).toMatch(/ with lab:raw\/run\/2 .*, answered with 403 AccessDenied\.$/);
    for (const one of said) {
      for (const sentence of Object.values(one)) expect(sentence).toMatch(/^It [^\n]*[^.]\.$/);
    }
  });
});
