// What is made of records one by one: what undoes what, what a release did otherwise, and that what
// a record leaves open is said and not guessed.
import { describe, expect, it } from 'vitest';
import { AccessHistory, type ToldRecord } from '#bursar/cli/access/history.js';
import { isSameAccess, whoCouldRead } from '#bursar/cli/access/who-could-read.js';

const place = { tenant: 'cms', bucket: 'raw', key: 'k' };

function told(...records: Partial<ToldRecord>[]): AccessHistory {
  const history = new AccessHistory('cms', 'raw');
  for (const [index, one] of records.entries()) {
    history.visit({
      ...{ index, time: '2026-11-01T00:00:00.000Z', action: 's3:GetObject', status: 200 },
      ...{ tenant: 'cms', principal: 'alice', accessKeyId: 'KEY', ...one },
    });
  }
  return history;
}

const readersOf = (history: AccessHistory) =>
  whoCouldRead(history, place, Date.parse('2026-11-01')).map(({ who, by }) => `${who} ${by}`);
const ofBucket = { bucket: 'raw' };
const made = { ...ofBucket, action: 's3:CreateBucket', change: { owner: 'alice' } };
const policy = (Principal: unknown) => ({
  ...{ ...ofBucket, action: 's3:PutBucketPolicy' },
  change: {
    policy: JSON.stringify({
      Version: '2012-10-17',
      Statement: {
        ...{ Sid: 's', Effect: 'Allow', Principal, Action: 's3:GetObject' },
        Resource: 'arn:aws:s3:::raw/*',
      },
    }),
  },
});
const grant = (name: string, rule: object) => ({
  ...{ action: 'bursar:PutGrant', target: `tenants/cms/grants/${name}` },
  change: { effect: 'allow', actions: ['s3:GetObject'], bucket: 'raw', ...rule },
});
const unblocked = {
  ...{ ...ofBucket, action: 's3:PutBucketPublicAccessBlock', change: { publicAccess: null } },
};

describe('what records tell of access', () => {
  it('is undone by what undoes it, and not by what was refused', () => {
    const bob = grant('g', { subjects: ['principal:atlas/bob'] });
    const end = { action: 'bursar:DeleteGrant', target: 'tenants/cms/grants/g' };
    expect(readersOf(told(made, bob))).toContain('atlas/bob grant:g');
    expect(readersOf(told(made, bob, { ...end, error: 'AccessDenied', status: 403 }))).toContain(
      'atlas/bob grant:g',
    );
    expect(readersOf(told(made, bob, end))).not.toContain('atlas/bob grant:g');
    expect(readersOf(told(made, bob, { ...ofBucket, action: 's3:DeleteBucket' }))).toEqual([]);
  });

  it('keeps the public out of a new bucket, and not of one of release 0.1.0', () => {
    const open = policy('*');
    expect(readersOf(told(made, open))).not.toContain('anyone policy:s');
    expect(readersOf(told(made, unblocked, open))).toContain('anyone policy:s');
    const upgrade = { action: 'bursar:MigrateDatabase', change: { from: 3, to: 4 } };
    expect(readersOf(told(made, open, upgrade))).toContain('anyone policy:s');
    expect(readersOf(told(upgrade, made, open))).not.toContain('anyone policy:s');
    const history = told(made, open);
    readersOf(history);
    expect([...history.notTold].join()).toContain('kept the public out');
  });

  it('ends tokens with their key, and at their time', () => {
    const token = {
      action: 'bursar:CreateToken',
      change: { id: 'jti', scope: 'storage.read:/raw', expiresAt: '2026-11-02T00:00:00.000Z' },
    };
    expect(readersOf(told(made, token))).toContain('cms/alice token:jti');
    const key = 'tenants/cms/principals/alice/access-keys/KEY';
    for (const end of [
      { action: 'bursar:DeleteAccessKey', target: key },
      { action: 'bursar:UpdateAccessKey', target: key, change: { active: false } },
      { action: 'bursar:RevokeToken', change: { id: 'jti' } },
    ]) {
      expect(readersOf(told(made, token, end))).not.toContain('cms/alice token:jti');
    }
    const later = whoCouldRead(told(made, token), place, Date.parse('2026-11-03'));
    expect(later.map(({ by }) => by)).toEqual(['owner']);
    const elsewhere = { ...token, change: { ...token.change, scope: 'storage.read:/raw/kk' } };
    expect(readersOf(told(made, elsewhere))).not.toContain('cms/alice token:jti');
  });

  it('denies where a denial has no conditions, and says which has some', () => {
    const bob = grant('g', { subjects: ['principal:atlas/bob'] });
    const deny = { subjects: ['tenant:atlas'], effect: 'deny' };
    expect(readersOf(told(made, bob, grant('d', deny)))).not.toContain('atlas/bob grant:g');
    const conditions = { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } };
    const history = told(made, bob, grant('d', { ...deny, conditions }));
    const [way] = whoCouldRead(history, place, 0).filter(({ who }) => who === 'atlas/bob');
    expect(way?.conditions).toEqual([expect.stringMatching(/^unless grant:d .*aws:SourceIp/)]);
  });

  it('does not guess what is longer than records are, erased, or before a rebuild', () => {
    const long = { ...grant('g', {}), change: { bytes: 5000, sha256: 'ab' } };
    const history = told({ action: 'bursar:Rebuild' }, made, long, {
      ...{ action: 'bursar:EraseRecords', target: 'tenants/cms/erasures' },
    });
    expect(readersOf(history)).toEqual(['cms/alice owner']);
    history.compare([]);
    const left = [...history.notTold].join('\n');
    for (const one of [/before record 0/, /grant cms\/g said at record 2/, /record 3 erased/]) {
      expect(left).toMatch(one);
    }
  });

  it('is the same though more places are named, and not where one of them is another', () => {
    const [before, after] = [['run1/*'], ['run1/*', 'run1/a', 'run1/sub/*', 'run1/sub/b']];
    const same = (given: string[]) =>
      isSameAccess({ given: ['run1/*'], among: before }, { given, among: after });
    expect(same(after)).toBe(true);
    for (const lost of after)
      expect([lost, same(after.filter((one) => one !== lost))]).toEqual([lost, false]);
    const inner = { given: ['run1/sub/*'], among: ['run1/*', 'run1/sub/*'] };
    const all = ['run1/*', 'run1/sub/*', 'run1/sub/b'];
    expect(isSameAccess(inner, { given: ['run1/sub/*', 'run1/sub/b'], among: all })).toBe(true);
    expect(isSameAccess(inner, { given: ['run1/sub/*'], among: all })).toBe(false);
  });
});
