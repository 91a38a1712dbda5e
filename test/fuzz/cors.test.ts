// CORS at random: documents are read as they were written or refused, and what rules allow is what
// a plain reading of them allows.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { parseXml, renderXml } from '#bursar/gateway/http/xml.js';
import {
  type CorsRule,
  CorsRules,
  corsElements,
  corsHeaders,
  parseCorsRules,
  readCorsRules,
} from '#bursar/gateway/s3/buckets/cors.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const rootOf = (document: Buffer) => parseXml(document, 'CORSConfiguration');

const origins = ['*', 'https://*.a.org', 'https://b.a.org', 'null', 'a*', '*a', 'a*a', 'a', 'aa'];
const headers = ['*', 'x-*', 'X-Amz-*', 'content-type', 'x-a', '*-a'];
const methods = ['GET', 'PUT', 'POST', 'DELETE', 'HEAD'];

function some<T>(random: Random, items: readonly T[], countMin: number): T[] {
  const count = countMin + randomBelow(random, 3);
  return Array.from({ length: count }, () => randomOf(random, items));
}

function someRule(random: Random): CorsRule {
  return {
    ...(randomBelow(random, 2) === 0 && { id: randomOf(random, ['', 'one', '<&>', 'ü']) }),
    allowedHeaders: some(random, headers, 0),
    allowedMethods: some(random, methods, 1),
    allowedOrigins: some(random, origins, 1),
    exposeHeaders: some(random, ['ETag', 'x-amz-meta-a'], 0),
    ...(randomBelow(random, 2) === 0 && { maxAgeSeconds: randomBelow(random, 5000) }),
  };
}

/** As a regular expression has it. */
function fits(pattern: string, text: string): boolean {
  const [before = '', after] = pattern.split('*').map((part) => part.replace(/\W/g, '\\$&'));
  return new RegExp(after === undefined ? `^${before}$` : `^${before}.*${after}$`, 's').test(text);
}

describe('CORS rules', () => {
  it(
    'are read as they were written',
    () =>
      fuzz(1, 1000, (random) => {
        const rules = some(random, [null], 1).map(() => someRule(random));
        const body = Buffer.from(renderXml('CORSConfiguration', corsElements(rules)));
        expect(parseCorsRules(rootOf(body))).toEqual(rules);
      }),
    fuzzTimeoutMs,
  );

  it(
    'allow what the first that fits allows, and tell no more',
    () =>
      fuzz(100_000, 3000, (random) => {
        // Beyond 32, and beyond 64, too.
        const count = randomBelow(random, randomOf(random, [3, 40, 100]));
        const rules = Array.from({ length: count }, () => someRule(random));
        const ask = {
          origin: randomOf(random, [...origins, 'https://c.a.org', 'aba', '']),
          method: randomOf(random, [...methods, 'PATCH']),
          headers: some(random, ['x-a', 'x-amz-b', 'content-type', 'y'], 0),
        };
        const expected = rules.find(
          (rule) =>
            rule.allowedMethods.includes(ask.method) &&
            rule.allowedOrigins.some((pattern) => fits(pattern, ask.origin)) &&
            ask.headers.every((name) =>
              rule.allowedHeaders.some((pattern) => fits(pattern.toLowerCase(), name)),
            ),
        );
        const rule = new CorsRules(rules).find(ask);
        expect(rule).toBe(expected);
        if (!rule) return;
        const told = corsHeaders(rule, ask);
        const isForAll = rule.allowedOrigins.includes('*');
        expect(told['access-control-allow-origin']).toBe(isForAll ? '*' : ask.origin);
        // Never both: a browser would send credentials to what is for all.
        expect('access-control-allow-credentials' in told).toBe(!isForAll);
      }),
    fuzzTimeoutMs,
  );

  it(
    'that are damaged are refused, and only by a Refusal',
    () =>
      fuzz(200_000, 2000, (random) => {
        const rules = some(random, [null], 1).map(() => someRule(random));
        let text = renderXml('CORSConfiguration', corsElements(rules));
        const at = randomBelow(random, text.length);
        const more = [
          '',
          '<',
          '>',
          '<AllowedMethod>',
          '<MaxAgeSeconds>',
          '*',
          '**',
          ' ',
          '\n',
          'x',
        ];
        text = text.slice(0, at) + randomOf(random, more) + text.slice(at + randomBelow(random, 9));
        try {
          for (const rule of parseCorsRules(rootOf(Buffer.from(text)))) {
            expect(rule.allowedOrigins.length).toBeGreaterThan(0);
            expect(rule.allowedMethods.every((method) => methods.includes(method))).toBe(true);
            const shown = [...rule.allowedOrigins, ...rule.allowedHeaders, ...rule.exposeHeaders];
            expect(shown.every((one) => /^[\x21-\x7e]*$/.test(one))).toBe(true);
          }
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(['MalformedXML', 'InvalidRequest']).toContain(error.code);
        }
      }),
    fuzzTimeoutMs,
  );

  it('have at most 100 allowed headers with a star inside, but for those of before', () => {
    const of = (count: number): CorsRule[] => [
      {
        allowedHeaders: Array.from({ length: count }, (_, i) => `a${i}-*-z`),
        ...{ allowedMethods: ['GET'], allowedOrigins: ['*'], exposeHeaders: [] },
      },
    ];
    const parse = (rules: CorsRule[]) =>
      parseCorsRules(rootOf(Buffer.from(renderXml('CORSConfiguration', corsElements(rules)))));
    expect(parse(of(100))).toEqual(of(100));
    expect(() => parse(of(101))).toThrow(expect.objectContaining({ code: 'InvalidRequest' }));
    const stored = readCorsRules(JSON.stringify(of(1000)));
    const ask = { origin: 'https://a', method: 'GET' };
    expect(stored.find({ ...ask, headers: ['a999-b-z'] })).toEqual(of(1000)[0]);
    expect(stored.find({ ...ask, headers: ['a999-z'] })).toBeUndefined();
  });
});
