// Reference pages hold every row of the table that they describe, and say what the code says.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { renderRecord } from '#bursar/audit/record.js';
import { type ErrorCode, statusOf } from '#bursar/core/errors.js';
import { flagOf, type Setting, variableOf } from '#bursar/server/settings/setting.js';
import { settings } from '#bursar/server/settings/settings.js';
import { readPage, root, rowsOf, sectionOf } from './markdown.ts';

const errorsFile = 'src/core/errors.ts';

describe('the page of errors', () => {
  const { text } = readPage('docs/users/errors.md');
  const rows = rowsOf(text);
  const documented = rows.map(([code]) => String(code));
  const reserved = rowsOf(sectionOf(text, 'Reserved')).map(([code]) => String(code));

  it('has each code of the table of errors once', () => {
    const source = readFileSync(join(root, errorsFile), 'utf8');
    const codes = [...source.matchAll(/^ {2}([A-Z]\w+): \[/gm)].map(([, code]) => String(code));
    expect(codes.length).toBeGreaterThan(50);
    expect(documented.sort()).toEqual(codes.sort());
  });

  it.each(rows)('gives %s the status that the gateway gives it', (code = '', status) => {
    expect(String(statusOf(code as ErrorCode))).toBe(status);
  });

  it('calls those codes reserved that nothing gives, and no others', () => {
    const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .map((name) => join('src', name))
      .filter((name) => name.endsWith('.ts') && name !== errorsFile)
      // What other servers answer.
      .filter((name) => !name.startsWith(join('src', 'tiering', 'stores', 's3')))
      .map((name) => readFileSync(join(root, name), 'utf8'));
    // `invalidArgument` of the table's own file gives this one.
    const given = (code: string) =>
      code === 'InvalidArgument' || sources.some((source) => source.includes(`'${code}'`));
    expect(documented.filter((code) => !given(code)).sort()).toEqual(reserved.sort());
  });
});

describe('the page on running', () => {
  const all = Object.values(settings) as Setting<unknown>[];
  const rows = rowsOf(sectionOf(readPage('docs/admin/running.md').text, 'Settings'));

  it('has a row for each setting, with its flag, variable, key and default', () => {
    const expected = all.map((one) => [
      one.secret || one.isMapping ? '' : flagOf(one),
      variableOf(one),
      one.notInFile ? '' : one.key,
      one.default ?? '',
    ]);
    expect(rows.map((row) => row.slice(0, 4))).toEqual(expected);
  });
});

describe('the page of records', () => {
  it('has a row for each member that a record can have', () => {
    const draft = {
      action: 'a',
      tenant: 'a',
      principal: 'a',
      accessKeyId: 'a',
      keyThumbprint: 'a',
      tokens: ['a'],
      evidence: 'none',
      evidenceHash: 'a',
      evidenceAt: 1,
      folded: { reads: 1, firstRead: 'a', lastRead: 'a', sources: ['a'], otherReads: 1 },
      bucket: 'a',
      bucketOwner: 'a',
      bucketTenant: 'a',
      key: 'a',
      target: 'a',
      change: { active: true },
      limits: { requests: { total: 1 } },
      alarm: { limit: '1', meter: 'a', percent: 50, used: '1', window: 'a' },
      bytesIn: 1,
      bytesOut: 1,
      sizeBytes: 1,
      etag: 'a',
      sha256: 'a',
      class: 'a',
      range: 'a',
      payer: 'tenant',
      period: 'a',
      byteMs: '1',
      requestId: 'a',
      source: 'a',
      status: 200,
      error: 'a',
    } as const;
    const priced = { price: 'a', book: 'a' };
    const seal = {
      index: 0,
      timeMs: 0,
      storedBytes: 0,
      storedObjects: 0,
      makesVersion: true,
      supersededSeq: 0,
      named: { versionId: null, isMarker: true },
      amended: { seq: 0, attributes: '' },
      configured: { bucketId: 0, settings: '' },
      cost: 1n,
      storageCost: 1n,
      storageCosts: new Map([['a', 1n]]),
      priced,
      limited: [],
      backend: [],
    };
    const rows = rowsOf(sectionOf(readPage('docs/audit/records.md').text, 'What a record holds'));
    expect(rows.map(([member]) => member)).toEqual(
      Object.keys(JSON.parse(renderRecord(draft, seal))),
    );
  });
});
