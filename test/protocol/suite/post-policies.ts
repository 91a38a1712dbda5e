// What the policies of HTML forms forbid: a form that its signer did not mean stores nothing.
import type { S3Client } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Condition,
  type Fields,
  FormBucket,
  formBody,
  postForm,
  signPolicy,
  type Upload,
} from '../forms.ts';
import { type Answer, newBucket, patternOf, type Target } from '../target.ts';

export function describePostPolicies(targetOf: () => Target): void {
  describe('HTML forms', () => {
    let target: Target;
    let client: S3Client;
    let forms: FormBucket;
    let Bucket: string;
    beforeAll(async () => {
      target = targetOf();
      forms = await FormBucket.make(target);
      ({ client, name: Bucket } = forms);
    });

    const upload = (asked: Upload) => forms.upload(asked);
    const expectNothing = (answer: Answer, status: number, code: string) =>
      forms.expectNothing(answer, status, code);

    const refused: [string, Fields, Condition[]][] = [
      ['a field that no condition names', [['x-amz-meta-a', '1']], []],
      ['a status that no condition names', [['success_action_status', '201']], []],
      ['another value', [['acl', 'private']], [{ acl: 'public-read' }]],
      ['a value in another case', [['x-amz-meta-a', 'A']], [['eq', '$x-amz-meta-a', 'a']]],
      [
        'a value that begins otherwise',
        [['x-amz-meta-a', 'b']],
        [['starts-with', '$x-amz-meta-a', 'a']],
      ],
      ['a field that is missing', [], [['eq', '$x-amz-meta-a', 'a']]],
      ['an empty field that is missing', [], [['starts-with', '$x-amz-meta-a', '']]],
      [
        'a list with one type that begins otherwise',
        [['Content-Type', 'image/png,text/html']],
        [['starts-with', '$Content-Type', 'image/']],
      ],
    ];
    it.each(refused)('are refused for %s', async (_title, more, conditions) => {
      const fields: Fields = [['key', 'forms/refused'], ...more];
      await expectNothing(await upload({ fields, conditions }), 403, 'AccessDenied');
    });

    it('are refused for a key or a bucket that the policy does not name', async () => {
      const other = await newBucket(client);
      const post = (conditions: Condition[], key = 'forms/refused', bucket = Bucket) => {
        const signed = signPolicy(target.keys, conditions);
        const body = formBody([['key', key], ['bucket', Bucket], ...signed], { content: 'x' });
        return postForm(target, bucket, body);
      };
      const key = { key: 'forms/refused' };
      await expectNothing(await post([key]), 403, 'AccessDenied');
      await expectNothing(await post([{ bucket: Bucket }]), 403, 'AccessDenied');
      await expectNothing(
        await post([{ bucket: Bucket }, key], 'forms/refusee'),
        403,
        'AccessDenied',
      );
      await expectNothing(
        await post([{ bucket: Bucket }, key], 'forms/refused', other),
        403,
        'AccessDenied',
      );
      expect((await post([{ bucket: Bucket }, { key: 'forms/own' }], 'forms/own')).status).toBe(
        204,
      );
    });

    it('are refused for a file too large or too small, as soon as that is known', async () => {
      const fields: Fields = [['key', 'forms/refused']];
      const conditions = [['content-length-range', 10, 1000]];
      for (const [sizeBytes, code] of [
        [9, 'EntityTooSmall'],
        [1001, 'EntityTooLarge'],
        [3_000_000, 'EntityTooLarge'],
      ] as const) {
        const answer = await upload({ fields, conditions, content: patternOf(sizeBytes) });
        await expectNothing(answer, 400, code);
      }
      for (const sizeBytes of [10, 1000]) {
        const sized: Fields = [['key', `forms/${sizeBytes}`]];
        const content = patternOf(sizeBytes);
        expect((await upload({ fields: sized, conditions, content })).status).toBe(204);
      }
      expect(target.strayNames()).toEqual([]);
    });

    it('are refused for a digest that is not the file’s', async () => {
      for (const [name, value, code] of [
        ['Content-MD5', Buffer.alloc(16).toString('base64'), 'BadDigest'],
        ['x-amz-checksum-crc32', 'AAAAAA==', 'BadDigest'],
        ['x-amz-checksum-sha256', 'sailorjerry', 'InvalidRequest'],
      ] as const) {
        const fields: Fields = [
          ['key', 'forms/refused'],
          [name, value],
        ];
        const answer = await upload({ fields, conditions: [['starts-with', `$${name}`, '']] });
        await expectNothing(answer, 400, code);
      }
    });

    const inTime = () => new Date(Date.now() + 60_000).toISOString();
    const malformed: [string, () => unknown][] = [
      ['no JSON', () => 'expiration'],
      ['no object', () => []],
      ['no expiration', () => ({ conditions: [] })],
      ['no conditions', () => ({ expiration: inTime() })],
      ['conditions that are no list', () => ({ expiration: inTime(), conditions: {} })],
      ['names in another case', () => ({ expiration: inTime(), CONDITIONS: [] })],
      [
        'a date of another form',
        () => ({ expiration: inTime().replace('T', ' '), conditions: [] }),
      ],
      ['an empty condition', () => ({ expiration: inTime(), conditions: [{}] })],
      [
        'two fields in one condition',
        () => ({ expiration: inTime(), conditions: [{ a: '1', b: '2' }] }),
      ],
      ['a value that is no text', () => ({ expiration: inTime(), conditions: [{ acl: 1 }] })],
      [
        'a condition that is nested deeper than can be shown',
        () =>
          `{"expiration": "${inTime()}", "conditions": [${'['.repeat(6000)}${']'.repeat(6000)}]}`,
      ],
      [
        'an expiration that is nested as deep',
        () => `{"expiration": ${'['.repeat(6000)}${']'.repeat(6000)}, "conditions": []}`,
      ],
      [
        'an operator that is not known',
        () => ({ expiration: inTime(), conditions: [['ends-with', '$key', 'a']] }),
      ],
      [
        'a range without its end',
        () => ({ expiration: inTime(), conditions: [['content-length-range', 0]] }),
      ],
      [
        'a range below nothing',
        () => ({ expiration: inTime(), conditions: [['content-length-range', -1, 0]] }),
      ],
    ];
    it.each(malformed)('are refused for a policy with %s', async (_title, documentOf) => {
      const signed = signPolicy(target.keys, [], { document: documentOf() });
      const body = formBody([['key', 'forms/refused'], ...signed], { content: 'x' });
      await expectNothing(await postForm(target, Bucket, body), 400, 'InvalidPolicyDocument');
    });

    it('may have dollar signs and tabs in their policy as AWS escapes them', async () => {
      const [expiration, key] = [inTime(), 'forms/$a\u000b\\$'];
      const document = `{"expiration": "${expiration}", "conditions": [{"bucket": "${Bucket}"},
        {"key": "forms/\\$a\\v\\\\\\$"}, ["starts-with", "$x-amz-algorithm", ""],
        ["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""]]}`;
      const signed = signPolicy(target.keys, [], { document });
      const body = formBody([['key', key], ...signed], { content: 'x' });
      expect((await postForm(target, Bucket, body)).status).toBe(204);
    });

    it('are refused for a policy that has expired, or that the signer did not write', async () => {
      const conditions = [{ bucket: Bucket }, { key: 'forms/refused' }];
      const post = (signed: Fields) =>
        postForm(target, Bucket, formBody([['key', 'forms/refused'], ...signed], { content: 'x' }));
      const late = signPolicy(target.keys, conditions, { expiresInMs: -1000 });
      await expectNothing(await post(late), 403, 'AccessDenied');
      const old = signPolicy(target.keys, conditions, { signedAtMs: Date.now() - 8 * 86_400_000 });
      await expectNothing(await post(old), 403, 'AccessDenied');
      const good = signPolicy(target.keys, conditions);
      const wider = signPolicy(target.keys, [{ bucket: Bucket }, ['starts-with', '$key', '']]);
      const mixed = good.map(([name, value], i): [string, string] =>
        name === 'policy' ? [name, wider[i]?.[1] ?? ''] : [name, value],
      );
      await expectNothing(await post(mixed), 403, 'SignatureDoesNotMatch');
      const unknown = { ...target.keys, accessKeyId: 'AKIAUNKNOWNUNKNOWN00' };
      await expectNothing(await post(signPolicy(unknown, conditions)), 403, 'InvalidAccessKeyId');
      for (const { name } of good.map(([name]) => ({ name }))) {
        const less = good.filter(([one]) => one !== name);
        await expectNothing(await post(less), 400, 'InvalidArgument');
      }
      const v2: Fields = [
        ['AWSAccessKeyId', target.keys.accessKeyId],
        ['policy', 'e30='],
        ['signature', 'x'],
      ];
      await expectNothing(await post(v2), 400, 'InvalidRequest');
    });
  });
}
