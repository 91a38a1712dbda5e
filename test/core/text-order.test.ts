// The order of keys: that of their UTF-8 bytes.
import { describe, expect, it } from 'vitest';
import { compareText, textSuccessor } from '#bursar/core/text-order.js';

const texts = [
  '',
  '\0',
  'a',
  'a\0',
  'aa',
  'b',
  '\u007f',
  '\u0080',
  '\u07ff',
  '\u0800',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\u{10000}',
  '\u{10ffff}',
  '\u{10ffff}a',
  '\u{10ffff}\u{10ffff}',
];

describe('the order of texts', () => {
  it('is that of their UTF-8 bytes, not of UTF-16 units', () => {
    for (const [i, a] of texts.entries()) {
      for (const [j, b] of texts.entries()) {
        expect(Math.sign(compareText(a, b))).toBe(Math.sign(i - j));
      }
    }
    // UTF-16 would have it the other way round.
    expect('\uffff' < '\u{10000}').toBe(false);
    expect(compareText('\uffff', '\u{10000}')).toBeLessThan(0);
  });
});

describe('the successor of a text', () => {
  it.each([
    ['a', 'b'],
    ['a/', 'a0'],
    ['\u007f', '\u0080'],
    ['\ud7ff', '\ue000'],
    ['\uffff', '\u{10000}'],
    ['\u{1f600}', '\u{1f601}'],
    ['a\u{10ffff}', 'b'],
    ['a\u{10ffff}\u{10ffff}', 'b'],
    ['\0', '\u0001'],
  ])('%j is %j', (text, successor) => {
    expect(textSuccessor(text)).toBe(successor);
  });

  it.each(['', '\u{10ffff}', '\u{10ffff}\u{10ffff}'])('%j has none', (text) => {
    expect(textSuccessor(text)).toBeNull();
  });

  it('is above all that begin with the text, and not above the next that does not', () => {
    for (const text of texts) {
      const successor = textSuccessor(text);
      if (successor === null) continue;
      for (const other of texts) {
        const isAbove = compareText(successor, text + other) > 0;
        expect(isAbove).toBe(true);
        if (!other.startsWith(text) && compareText(other, text) > 0) {
          expect(compareText(other, successor)).toBeGreaterThanOrEqual(0);
        }
      }
    }
  });
});
