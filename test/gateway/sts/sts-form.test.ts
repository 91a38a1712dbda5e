// The form that asks for temporary keys: what is taken, and what is refused.
import { describe, expect, it } from 'vitest';
import { openForm } from '#bursar/gateway/sts/sts.js';

const readForm = (body: Buffer) => openForm(body).read();

const whole: Record<string, string> = {
  Action: 'AssumeRoleWithWebIdentity',
  Version: '2011-06-15',
  RoleArn: 'arn:aws:iam::cms:role/any/name',
  RoleSessionName: 'job-1',
  WebIdentityToken: 'a.b.c~d.e.f',
};

function form(given: Record<string, string | undefined> = {}): string {
  const entries = Object.entries({ ...whole, ...given });
  const present = entries.filter((entry): entry is [string, string] => entry[1] !== undefined);
  return new URLSearchParams(present).toString();
}

function refusal(text: string): string {
  try {
    readForm(Buffer.from(text));
  } catch (error) {
    return (error as { code: string }).code;
  }
  throw new Error('was not refused');
}

describe('the form for temporary keys', () => {
  it('is read as SDKs write it', () => {
    expect(readForm(Buffer.from(form()))).toEqual({
      tenant: 'cms',
      roleName: 'any/name',
      sessionName: 'job-1',
      token: 'a.b.c~d.e.f',
      policy: null,
      durationMs: 3_600_000,
    });
    const file = readForm(Buffer.from(form({ WebIdentityToken: 'a.b.c\r\n' })));
    expect(file.token).toBe('a.b.c');
    const policy = '{"Statement": "ünï + %20"}';
    const asked = readForm(Buffer.from(form({ Policy: policy, DurationSeconds: '43200' })));
    expect(asked).toMatchObject({ policy, durationMs: 12 * 3_600_000 });
  });

  it.each([
    ['another action', 'InvalidAction', form({ Action: 'AssumeRole' })],
    ['another version', 'InvalidAction', form({ Version: '2012-06-15' })],
    ['nothing', 'InvalidAction', ''],
    // A policy that we would not apply.
    ['managed policies', 'ValidationError', form({ 'PolicyArns.member.1.arn': 'arn:aws:iam::x' })],
    ['another parameter', 'ValidationError', form({ ProviderId: 'x' })],
    ['a parameter twice', 'ValidationError', `${form()}&Policy=a&Policy=b`],
    ['a parameter twice, once encoded', 'ValidationError', `${form()}&Policy=a&%50olicy=b`],
    ['no role', 'ValidationError', form({ RoleArn: undefined })],
    ['a role of no tenant', 'ValidationError', form({ RoleArn: 'arn:aws:iam:::role/any' })],
    ['a user', 'ValidationError', form({ RoleArn: 'arn:aws:iam::cms:user/any' })],
    ['no session name', 'ValidationError', form({ RoleSessionName: undefined })],
    ['a session name with a slash', 'ValidationError', form({ RoleSessionName: 'a/b' })],
    ['no token', 'ValidationError', form({ WebIdentityToken: undefined })],
    ['a large token', 'ValidationError', form({ WebIdentityToken: 'a'.repeat(16_385) })],
    ['a large policy', 'ValidationError', form({ Policy: ' '.repeat(2049) })],
    ['too short a time', 'ValidationError', form({ DurationSeconds: '899' })],
    ['too long a time', 'ValidationError', form({ DurationSeconds: '43201' })],
    ['a time that is no number', 'ValidationError', form({ DurationSeconds: '1e3' })],
    ['half an escape', 'ValidationError', `${form()}&Policy=%4`],
    ['bytes that are not UTF-8', 'ValidationError', `${form()}&Policy=%ff`],
    ['bytes that are not encoded', 'ValidationError', `${form()}&Policy=é`],
    ['very many parameters', 'ValidationError', `a=${'&a='.repeat(1000)}`],
  ])('with %s is refused', (_what, code, text) => {
    expect(refusal(text)).toBe(code);
  });
});
