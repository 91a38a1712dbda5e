// What records say of changes: bounded, and the same for every reader of JSON.
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type RecordDraft, renderRecord } from '#bursar/audit/record.js';
import { recordedChange } from '#bursar/audit/recorded-change.js';
import { canonicalize, parseCanonical } from '#bursar/core/canonical-json.js';

const draft: RecordDraft = {
  ...{ action: 'bursar:PutGrant', tenant: 'cms', principal: 'boss', evidence: 'shared-secret' },
  ...{ bytesIn: 0, bytesOut: 0, requestId: 'R', source: 'here', status: 200 },
};
const seal = { index: 7, timeMs: 0, storedBytes: 0, storedObjects: 0, cost: null };
const textOf = (members: object): string =>
  renderRecord({ ...draft, change: recordedChange(members) }, seal);

describe('what a record says of a change', () => {
  it('is in the one order of RFC 8785, however its sender wrote it', () => {
    const text = textOf({ z: 1, a: { 10: 'x', 9: 'y', b: [{ d: 1, c: 2 }] }, é: null, Z: true });
    expect(text).toContain(
      '"change":{"Z":true,"a":{"10":"x","9":"y","b":[{"c":2,"d":1}]},"z":1,"é":null}',
    );
    expect(parseCanonical(Buffer.from(text))).toMatchObject({ index: 7 });
  });

  it('has no member that was not given, and none of the prototype', () => {
    expect(recordedChange({ a: undefined, b: { c: undefined } })).toEqual({ b: {} });
    const hostile = JSON.parse('{"__proto__":{"isAdmin":true},"constructor":1}');
    expect(textOf(hostile)).toContain('"change":{"__proto__":{"isAdmin":true},"constructor":1}');
  });

  it('is Unicode and numbers that nobody rounds, whatever was sent', () => {
    const told = recordedChange({ half: 'a\ud800b', '\udc00': 1, n: 0.1, big: 2 ** 53 });
    expect(told).toEqual({
      half: 'a\ufffdb',
      '\ufffd': 1,
      n: '0.1',
      big: '9007199254740992',
    });
    const text = textOf({ half: 'a\ud800b' });
    expect(Buffer.from(text).toString()).toBe(text);
    expect(text).not.toContain('\\ud800');
  });

  it('is whole up to 4,096 bytes, and named by length and digest beyond', () => {
    const fitting = { policy: 'x'.repeat(4096 - '{"policy":""}'.length) };
    expect(recordedChange(fitting)).toEqual(fitting);
    for (const policy of [`${fitting.policy}x`, 'ü'.repeat(3000), 'x'.repeat(1_000_000)]) {
      const text = canonicalize({ policy });
      expect(recordedChange({ policy })).toEqual({
        bytes: Buffer.byteLength(text),
        sha256: createHash('sha256').update(text).digest('hex'),
      });
    }
  });
});
