// Whether a stored object is what was sent, found out while it comes.
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { ComparedAnswer } from '#bursar/tiering/stores/s3/object-answer.js';

const pieces = [1000, 1, 2500, 77].map((size) => randomBytes(size));
const whole = Buffer.concat(pieces);

function compare(stored: Buffer, stepBytes: number): boolean {
  const answer = new ComparedAnswer(pieces);
  answer.begin(200, { etag: '"etag"', 'content-length': String(stored.length) });
  for (let at = 0; at < stored.length; at += stepBytes) {
    answer.take(stored.subarray(at, at + stepBytes));
  }
  answer.end();
  return answer.isSame;
}

describe('a stored object', () => {
  it.each([1, 7, 1000, 1001, whole.length])('that comes %i bytes at a time is known', (step) => {
    expect(compare(whole, step)).toBe(true);
  });

  it('with any one byte changed is another', () => {
    for (const at of [0, 999, 1000, 1001, 3500, 3501, whole.length - 1]) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] as number) ^ 1;
      expect(compare(changed, 64)).toBe(false);
    }
  });

  it('that is shorter or longer is another', () => {
    expect(compare(whole.subarray(1), 64)).toBe(false);
    expect(compare(whole.subarray(0, -1), 64)).toBe(false);
    expect(compare(Buffer.concat([whole, whole]), 64)).toBe(false);
  });

  it('that breaks off is neither', () => {
    const answer = new ComparedAnswer(pieces);
    answer.begin(200, { etag: '"etag"', 'content-length': String(whole.length) });
    answer.take(whole.subarray(0, 2000));
    expect(() => answer.end()).toThrow('bytes are missing');
  });
});
