// Forms for temporary keys, and session policies, at random: each is taken or refused, and what is
// taken is what was written.
import { describe, expect, it } from 'vitest';
import { verdictOf } from '#bursar/authz/grants/rule.js';
import { parseSessionPolicy } from '#bursar/authz/grants/session-policy.js';
import { Refusal } from '#bursar/core/errors.js';
import { openForm } from '#bursar/gateway/sts/sts.js';
import { ask } from '../authz/grants/fixture.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

const readForm = (body: Buffer) => openForm(body).read();

type Random = () => number;

function takenOrRefused<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    expect((error as Refusal).status).toBe(400);
    return undefined;
  }
}

const pieces = ['&', '=', '%', '%41', '+', '\0', 'é', 'Policy', 'RoleArn=', 'Action=', '&&', '%C3'];
const characters = [...' +%&=~.é文\u{1f600}"{}\0'];

function textOf(random: Random): string {
  return Array.from({ length: randomBelow(random, 20) }, () => randomOf(random, characters)).join(
    '',
  );
}

describe('the form for temporary keys, fuzzed', () => {
  it('gives back what was written', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(700_000, 2000, (random) => {
      const [policy, token] = [textOf(random), `t${textOf(random)}`];
      const form = new URLSearchParams({
        Action: 'AssumeRoleWithWebIdentity',
        Version: '2011-06-15',
        RoleArn: 'arn:aws:iam::cms:role/any',
        RoleSessionName: 'name',
        WebIdentityToken: token,
        Policy: policy,
      });
      expect(readForm(Buffer.from(form.toString()))).toMatchObject({
        policy,
        token: token.trim(),
      });
    });
  });

  it('is taken or refused, whatever it is', { timeout: fuzzTimeoutMs }, async () => {
    const whole =
      'Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::cms:role/any' +
      '&RoleSessionName=name&WebIdentityToken=a.b.c';
    let taken = 0;
    await fuzz(710_000, 3000, (random) => {
      let text = random() < 0.1 ? randomBytesOf(random, 50).toString('latin1') : whole;
      for (let i = randomBelow(random, 3); i > 0; i--) {
        const at = randomBelow(random, text.length + 1);
        text =
          text.slice(0, at) + randomOf(random, pieces) + text.slice(at + randomBelow(random, 3));
      }
      if (takenOrRefused(() => readForm(Buffer.from(text)))) taken++;
    });
    expect(taken).toBeGreaterThan(300);
  });
});

const values: readonly unknown[] = [
  ...['*', 'Allow', 'Deny', 's3:*', 's3:GetObject', 'arn:aws:s3:::raw', 'arn:aws:s3:::raw/*', ''],
  ...['arn:aws:s3:::*', 'arn:aws:s3::atlas:r?w', '2012-10-17', '\x24{aws:username}', '\x24{'],
  ...[0, true, null, [], {}, [[]], '\ud800', { Bool: { 'aws:SecureTransport': 'true' } }],
];
const names = [
  'Sid',
  'Effect',
  'Principal',
  'Action',
  'NotAction',
  'Resource',
  'NotResource',
  '__proto__',
];

function mutate(random: Random, value: unknown): unknown {
  if (random() < 0.1 || typeof value !== 'object' || value === null) {
    return random() < 0.8 ? value : randomOf(random, values);
  }
  if (Array.isArray(value)) return value.map((one) => mutate(random, one));
  const entries = Object.entries(value).map(([name, one]) => [
    random() < 0.04 ? randomOf(random, names) : name,
    random() < 0.3 ? mutate(random, one) : one,
  ]);
  return Object.fromEntries(entries);
}

describe('session policies, fuzzed', () => {
  it('are taken or refused, and one more denial never allows more', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const whole = {
      Version: '2012-10-17',
      Statement: [
        { Effect: 'Allow', Action: ['s3:Get*', 's3:PutObject'], Resource: 'arn:aws:s3:::r*/a*' },
        { Effect: 'Deny', NotAction: 's3:GetObject', NotResource: ['arn:aws:s3:::raw/*'] },
      ],
    };
    const counts = { taken: 0, allowed: 0 };
    await fuzz(720_000, 2000, (random) => {
      const policy = mutate(random, whole) as typeof whole;
      const parse = (one: object) => parseSessionPolicy(JSON.stringify(one), 'cms');
      const rules = takenOrRefused(() => parse(policy));
      if (!rules) return;
      counts.taken++;
      const request = ask({
        action: randomOf(random, ['s3:GetObject', 's3:PutObject', 's3:GetObjectTagging'] as const),
        key: randomOf(random, ['a', 'ab/c', 'b', '\x24{aws:username}', '*']),
        tenant: randomOf(random, ['cms', 'atlas']),
        bucket: randomOf(random, ['raw', 'rawer', 'other']),
      });
      const decide = (all: typeof rules) => {
        const applying = all.filter((rule) => verdictOf(rule, request) === 'applies');
        return applying.length > 0 && applying.every(({ effect }) => effect === 'allow');
      };
      const allowed = decide(rules);
      if (allowed) counts.allowed++;
      const denial = parse({
        Version: '2012-10-17',
        Statement: { Sid: 'x', Effect: 'Deny', Action: '*', Resource: '*' },
      });
      expect(decide([...rules, ...denial])).toBe(false);
    });
    expect(counts.taken).toBeGreaterThan(100);
    expect(counts.allowed).toBeGreaterThan(10);
  });
});
