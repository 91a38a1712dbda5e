// Errors that give back what a client sent, at random: each is well-formed XML 1.0, or JSON without
// halves of characters, of bounded size.
import { SaxesParser } from 'saxes';
import { expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { describeInXml } from '#bursar/gateway/http/reply.js';
import { describeInProblem } from '#bursar/gateway/native/problem.js';
import { describeInStsXml } from '#bursar/gateway/sts/sts.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

const pieces = [
  ...['a', '<', '>', '&', '"', "'", ']]>', '<!--', '&#0;', '\\', '\0', '\u0001', '\b', '\t', '\n'],
  ...['\v', '\f', '\r', '\u001f', '\u007f', '\u0085', '\u009f', '\u2028', '\ufffd', '\ufffe'],
  ...['\uffff', '\ud800', '\udbff', '\udc00', '\udfff', '😀', '\u{1fffe}', '\u{10ffff}', 'ü'],
];

function text(random: () => number): string {
  return Array.from({ length: randomBelow(random, 12) }, () => randomOf(random, pieces)).join('');
}

/** As strict readers of XML 1.0 are. Throws for what they would not read. */
function readXml(document: string): string[] {
  const texts: string[] = [];
  // What is sent is UTF-8, which has no halves of characters.
  expect(Buffer.from(document).toString()).toBe(document);
  const parser = new SaxesParser({ defaultXMLVersion: '1.0', forceXMLVersion: true });
  parser.on('error', (error) => {
    throw error;
  });
  parser.on('text', (one) => texts.push(one));
  parser.write(document).close();
  return texts;
}

it(
  'is a document that every reader takes, whatever it gives back',
  () =>
    fuzz(1, 800, (random) => {
      const [message, value, url] = [text(random), text(random), `/${text(random)}`];
      const fields = { ArgumentValue: value, field: value };
      const refusal = new Refusal('InvalidArgument', { message, fields });
      const about = { raw: { url, method: 'GET' } as never, id: 'an-id', hostId: 'a-host' };
      for (const describe of [describeInXml, describeInStsXml]) {
        const document = describe(refusal, about).text;
        expect(readXml(document)).toContain('an-id');
      }
      const problem = describeInProblem(refusal, about).text;
      const told = JSON.parse(problem) as Record<string, unknown>;
      expect(told).toMatchObject({ code: 'InvalidArgument', requestId: 'an-id' });
      for (const one of Object.values(told)) {
        expect(Buffer.from(String(one)).toString()).toBe(String(one));
      }
    }),
  fuzzTimeoutMs,
);

it('gives back what can be given back as it came', () => {
  const plain = 'a <b> & "c" \t\n\r\u007f\u0085 ü 😀';
  const refusal = new Refusal('InvalidArgument', { message: plain });
  const about = { raw: { url: '/' } as never, id: 'an-id', hostId: 'a-host' };
  expect(readXml(describeInXml(refusal, about).text)).toContain(plain);
  expect(JSON.parse(describeInProblem(refusal, about).text)).toMatchObject({ detail: plain });
});

it('gives back no more than a bounded part of what is very long', () => {
  const long = '&\ud800'.repeat(500_000);
  const refusal = new Refusal('InvalidArgument', { message: long, fields: { field: long } });
  const about = { raw: { url: '/' } as never, id: 'an-id', hostId: 'a-host' };
  const document = describeInXml(refusal, about).text;
  expect(document.length).toBeLessThan(1_000_000);
  expect(readXml(document)).toContain('an-id');
  expect(describeInProblem(refusal, about).text.length).toBeLessThan(1_000_000);
});
