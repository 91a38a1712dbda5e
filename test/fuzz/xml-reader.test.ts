// XML at random: what is written is read back, and what is damaged is refused; nothing but a
// Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { parseXml, renderXml, type XmlElements, type XmlNode } from '#bursar/gateway/http/xml.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

const special = [
  '&',
  '<',
  '>',
  '"',
  "'",
  ']]>',
  '\t',
  '\n',
  '\r',
  '\r\n',
  '\u0001',
  '\u001f',
  '\u007f',
  '\u0080',
  '\u0085',
  '\u009f',
  '\u2028',
  '\u2029',
  '\ufeff',
  '\ufdd0',
  '&amp;',
  '&#x1;',
  'é',
  '🙂',
  ' ',
];
const names = ['Key', 'Object', 'Part', 'ETag', 'constructor', '__proto__'];

function text(random: Random): string {
  let out = '';
  for (let i = randomBelow(random, 6); i > 0; i--) {
    out += randomBelow(random, 3) === 0 ? 'plain' : randomOf(random, special);
  }
  return out;
}

type Tree = readonly [name: string, content: string | readonly Tree[]];

/** A tree of texts and elements whose names do not repeat beside each other. */
function tree(random: Random, depth: number): Tree {
  const name = randomOf(random, names);
  if (depth === 0 || randomBelow(random, 3) === 0) return [name, text(random)];
  const children = Array.from({ length: 1 + randomBelow(random, 3) }, () =>
    tree(random, depth - 1),
  );
  const ownNames = new Set(children.map(([own]) => own));
  return [name, [...ownNames].map((own) => children.find(([one]) => one === own) as Tree)];
}

function elementsOf(children: readonly Tree[]): XmlElements {
  const pairs = children.map(([name, content]) => [
    name,
    typeof content === 'string' ? content : elementsOf(content),
  ]);
  return Object.fromEntries(pairs);
}

function treeOf({ name, text: own, children }: XmlNode): Tree {
  return [name, children.length === 0 ? own : children.map(treeOf)];
}

describe('the XML reader', () => {
  it(
    'reads what was written, all characters included that XML can hold',
    () =>
      fuzz(1, 3000, (random) => {
        const content = [tree(random, 3)] as const;
        const document = renderXml('Root', elementsOf(content));
        expect(treeOf(parseXml(Buffer.from(document), 'Root'))).toEqual(['Root', content]);
      }),
    fuzzTimeoutMs,
  );

  it(
    'refuses damage, and only by a Refusal',
    () =>
      fuzz(100_000, 5000, (random) => {
        const document = renderXml('Root', elementsOf([tree(random, 4)]));
        let bytes = Buffer.from(document);
        for (let i = 1 + randomBelow(random, 3); i > 0; i--) {
          const at = randomBelow(random, bytes.length);
          const end = at + randomBelow(random, 5);
          const more = randomOf(random, [
            '',
            '<',
            '>',
            '&',
            '</Key>',
            '<!DOCTYPE x>',
            '<![CDATA[',
            ']]>',
            '<?x?>',
            '<!--',
            '&#0;',
            '&x;',
            ' a="b"',
            randomBytesOf(random, 3).toString('latin1'),
          ]);
          bytes = Buffer.concat([
            bytes.subarray(0, at),
            Buffer.from(more, 'latin1'),
            bytes.subarray(end),
          ]);
        }
        try {
          const { name } = parseXml(bytes, 'Root');
          expect(name).toBe('Root');
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(error.code).toBe('MalformedXML');
        }
      }),
    fuzzTimeoutMs,
  );

  it('comes to an end with what is built to take long', () => {
    const bombs = [
      '<Root>'.repeat(500_000),
      `<Root>${'&amp;'.repeat(500_000)}</Root>`,
      `<Root ${'a'.repeat(1_000_000)}="x"/>`,
      `<Root>${'<a/>'.repeat(500_000)}</Root>`,
      `<Root>${'<!---->'.repeat(300_000)}</Root>`,
      `<Root>${']]'.repeat(500_000)}</Root>`,
      `<Root>${'\u0085'.repeat(500_000)}</Root>`,
    ];
    const outcomes = bombs.map((bomb) => {
      try {
        return parseXml(Buffer.from(bomb), 'Root').name;
      } catch (error) {
        return (error as Refusal).code;
      }
    });
    const refused = [bombs[0], bombs[3]];
    expect(outcomes).toEqual(
      bombs.map((bomb) => (refused.includes(bomb) ? 'MalformedXML' : 'Root')),
    );
  });
});
