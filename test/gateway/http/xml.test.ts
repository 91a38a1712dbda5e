// S3's XML: what is written, and what the reader takes and refuses.
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import {
  childOf,
  parseLargeXml,
  parseXml,
  renderErrorXml,
  renderXml,
  textOf,
} from '#bursar/gateway/http/xml.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const read = (text: string, root = 'R') => parseXml(Buffer.from(text), root);

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
  return 'none';
}

describe('a document written', () => {
  it('has S3’s namespace, elements in order, and nothing for what there is not', () => {
    const content = { A: 'x', B: null, C: undefined, D: [1, true, 'y'], E: { F: '' }, G: [] };
    expect(renderXml('R', content)).toBe(
      '<?xml version="1.0" encoding="UTF-8"?>\n' +
        '<R xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
        '<A>x</A><D>1</D><D>true</D><D>y</D><E><F></F></E></R>',
    );
    expect(renderErrorXml({ Code: 'X' })).toMatch(/<Error><Code>X<\/Code><\/Error>$/);
  });

  it('escapes markup, and names control characters as S3 does', () => {
    expect(renderXml('R', `<&>"'\u0001\r\n\t\u007f\uffff`)).toContain(
      `&lt;&amp;&gt;&quot;'&#x1;&#xd;&#xa;&#x9;&#x7f;&#xffff;</R>`,
    );
  });
});

describe('a document read', () => {
  it('gives names without prefixes, text in one piece, and children in order', () => {
    const node = read(
      '<?xml version="1.0"?><s:R xmlns:s="u"><!-- c --><A> ' +
        'x<![CDATA[<y>]]>&amp;&#122;</A><?p i?><s:B/></s:R>',
    );
    expect(node.children).toEqual([
      { name: 'A', text: ' x<y>&z', children: [] },
      { name: 'B', text: '', children: [] },
    ]);
    expect(textOf(node, 'A')).toBe(' x<y>&z');
    expect(childOf(node, 'C')).toBeUndefined();
  });

  it('keeps the characters that XML 1.1 would fold, and takes those that it wants named', () => {
    const odd = '\u007f\u0080\u0085\u009f\u2028';
    expect(read(`<R>${odd}</R>`).text).toBe(odd);
    expect(read('<R>\r\n|\r|&#xd;|&#x1;</R>').text).toBe('\n|\n|\r|\u0001');
  });

  it('refuses an element that must not repeat', () => {
    expect(codeOf(() => textOf(read('<R><A/><A/></R>'), 'A'))).toBe('MalformedXML');
  });

  it.each([
    ['nothing', ''],
    ['another root', '<S/>'],
    ['two roots', '<R/><R/>'],
    ['text behind the root', '<R/>x'],
    ['a document type', '<!DOCTYPE R><R/>'],
    ['an entity', '<R>&nbsp;</R>'],
    ['NUL', '<R>&#0;</R>'],
    ['a half of a character', '<R>&#xd800;</R>'],
    ['an attribute twice', '<R a="1" a="2"/>'],
    ['an odd character in CDATA', '<R><![CDATA[\u0085]]></R>'],
  ])('refuses %s', (_title, text) => {
    expect(codeOf(() => read(text))).toBe('MalformedXML');
  });

  it('has at most 100,000 elements and attributes', () => {
    const many = (elements: number) => `<R>${'<A/>'.repeat(elements - 1)}</R>`;
    expect(read(many(100_000)).children).toHaveLength(99_999);
    expect(codeOf(() => read(many(100_001)))).toBe('MalformedXML');
    const attributes = Array.from({ length: 100_000 }, (_, i) => `a${i}=""`).join(' ');
    expect(codeOf(() => read(`<R ${attributes}/>`))).toBe('MalformedXML');
  });

  it('has room for 10,000 parts with all their checksums', () => {
    const part = ['PartNumber', 'ETag', 'ChecksumCRC32', 'ChecksumCRC32C', 'ChecksumCRC64NVME']
      .concat(['ChecksumSHA1', 'ChecksumSHA256'])
      .map((name) => `<${name}>0</${name}>`)
      .join('');
    const parts = `<Part>${part}</Part>`.repeat(10_000);
    expect(read(`<R xmlns="u">${parts}</R>`).children).toHaveLength(10_000);
  });

  it('is at most ten levels deep and 4 MiB long', () => {
    const nested = (levels: number) =>
      `<R>${'<A>'.repeat(levels - 1)}${'</A>'.repeat(levels - 1)}</R>`;
    expect(read(nested(10)).name).toBe('R');
    expect(codeOf(() => read(nested(11)))).toBe('MalformedXML');
    const sized = (bytes: number) => `<R>${'x'.repeat(bytes - 7)}</R>`;
    expect(read(sized(4 * 1024 * 1024)).name).toBe('R');
    expect(codeOf(() => read(sized(4 * 1024 * 1024 + 1)))).toBe('MaxMessageLengthExceeded');
  });
});

describe('a document full of references', () => {
  const heapBytes = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };

  it('takes about as much memory as its texts when it was read', async () => {
    const text = `<A>${'k&amp;lm'.repeat(254)}</A>`.repeat(1000);
    const document = Buffer.from(`<R>${text}</R>`);
    const before = heapBytes();
    const node = await parseLargeXml(document, 'R');
    expect(heapBytes() - before).toBeLessThan(2 * document.length);
    expect(node.children.at(-1)?.text).toBe('k&lm'.repeat(254));
  });

  it('takes not much more while a text goes on', async () => {
    const document = Buffer.from(`<R>${'&quot;'.repeat(500_000)}</R>`);
    const before = heapBytes();
    let most = 0;
    let node: { text: string } | undefined;
    const reading = parseLargeXml(document, 'R').then((read) => {
      node = read;
    });
    while (!node) {
      await turn();
      most = Math.max(most, heapBytes() - before);
    }
    await reading;
    expect(most).toBeLessThan(3 * document.length);
    expect(node.text).toBe('"'.repeat(500_000));
  });
});
