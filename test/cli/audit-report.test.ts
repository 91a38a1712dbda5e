// `bursar audit report`: a page of what was done in a tenant, made of records that were verified.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { RecordSummary } from '#bursar/audit/record-summary.js';
import type { AuditRecord } from '#bursar/audit/verify/opening.js';
import { renderAuditPage } from '#bursar/cli/audit-report-page.js';
import { formatUsd, parseUsd } from '#bursar/core/money.js';
import { S3Client } from '../fault/s3-client.ts';
import { type Outcome, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const place = new Workplace();
const keyFile = join(place.folder, 'key');
const page = join(place.folder, 'page.html');
const bundle = join(place.folder, 'bundle.jsonl');

async function run(line: string): Promise<Outcome> {
  return place.run(line.split(' '));
}

beforeAll(async () => {
  const { endpoint } = await place.serve();
  await run('tenant create cms');
  await run('principal create cms/alice');
  const { stdout } = await run('key create cms/alice --json');
  const alice = new S3Client({ endpoint, ...JSON.parse(stdout) });
  await alice.send('PUT', '/raw');
  await alice.send('PUT', '/raw/a', { body: Buffer.from('ten bytes.') });
  await alice.send('GET', '/raw/a');
  await alice.send('GET', '/nobodys/a');
  await run('tenant create atlas');
  await run('principal create atlas/bob');
  const key = await run('key create atlas/bob --json');
  const bob = new S3Client({ endpoint, ...JSON.parse(key.stdout) });
  await run('grant set cms/bob --subject principal:atlas/bob --action s3:GetObject --bucket raw');
  await run('bucket set cms/raw --reads-paid-by requester');
  const headers = { 'x-amz-request-payer': 'requester' };
  expect((await bob.send('GET', '/cms:raw/a', { headers })).status).toBe(200);
  bob.close();
  alice.close();
  writeFileSync(keyFile, await (await fetch(`${endpoint}/_/log/key`)).text());
});
afterAll(() => place.remove());

const textOf = (html: string) => html.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

it('says who did what, was charged what and was refused what, with the indexes', async () => {
  const made = await run(`audit report cms --key ${keyFile} --out ${page} --json`);
  expect(made.stderr).toBe('');
  const said = JSON.parse(made.stdout);
  expect(said).toMatchObject({ out: page, tenant: 'cms', from: 0 });
  const html = readFileSync(page, 'utf8');
  const text = textOf(html);
  expect(text).toContain('What was done in cms');
  expect(text).toMatch(/cms\/alice s3:PutObject 1 0 #\d+/);
  expect(text).toMatch(/cms\/alice s3:GetObject NoSuchBucket 1 #\d+/);
  // Bob pays for what he reads in a bucket whose requesters pay, and cms does not.
  expect(text).toMatch(/cms:raw \d+ 0\.0000\d+ USD/);
  expect(text).toMatch(/atlas\/bob 1 0 0 B 10 B 0\.00 USD/);
  expect(text).toMatch(/#\d+ \S+ cms\/alice s3:CreateBucket cms:raw/);
  // All sums are the same, and those of other commands.
  const { spend } = JSON.parse((await run('usage tenant:cms --json')).stdout);
  const [cost] = JSON.parse((await run('cost tenant:cms --json')).stdout).cases;
  expect(cost.total).toBe(spend);
  expect(text).toContain(`; ${spend} USD were charged to the tenant`);
  const chargedIn = (title: string) => {
    const [rows = ''] = html.split(`<h2>${title}</h2>`)[1]?.split('</section>') ?? [];
    const amounts = [...rows.matchAll(/>(\d+\.\d+) USD</g)].map(([, usd]) => parseUsd(usd ?? ''));
    return formatUsd(amounts.reduce((sum: bigint, one) => sum + (one ?? 0n), 0n));
  };
  for (const title of [
    'Who did how much',
    'What was charged, by bucket',
    'What was charged, by day',
  ]) {
    expect([title, chargedIn(title)]).toEqual([title, spend]);
  }
  expect(html).not.toMatch(/<script|<link|<img|src=|url\(/);
  expect(said.verified.join(' ')).toContain(`Each of the ${said.records} records`);
  expect(said.notVerified.join(' ')).not.toContain('the one that the gateway gave');
  expect(said.notVerified.join(' ')).toContain('no witness was demanded');
});

it("says that the key was the gateway's own, where none was given", async () => {
  expect((await run(`audit report cms --out ${page}`)).code).toBe(0);
  expect(textOf(readFileSync(page, 'utf8'))).toContain('is the one that the gateway gave');
  // What was fetched for it is gone.
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith('bursar-audit-'))).toEqual([]);
});

it('is made of a bundle without a gateway, and of none that is damaged', async () => {
  expect((await run(`audit export cms --out ${bundle}`)).code).toBe(0);
  const given = `audit report --bundle ${bundle} --key ${keyFile} --out ${page}`;
  expect((await run(given)).code).toBe(0);
  const lines = readFileSync(bundle, 'utf8').split('\n');
  writeFileSync(bundle, lines.toSpliced(lines.length - 2, 1).join('\n'));
  const refused = await run(given);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('be believed')]);
});

it('wants the tenant or a bundle, and the key where no gateway is asked', async () => {
  const none = await run(`audit report --out ${page}`);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('say the tenant')]);
  const keyless = await run(`audit report --bundle ${bundle} --out ${page}`);
  expect([keyless.code, keyless.stderr]).toEqual([2, expect.stringContaining('--key')]);
});

it('shows texts of records as texts', () => {
  const summary = new RecordSummary();
  const evil = '<script>alert("x")</script>\u202e';
  summary.add(
    {
      ...{
        index: 1,
        time: '2026-11-01T00:00:00.000Z',
        tenant: evil,
        principal: evil,
        action: evil,
      },
      ...{ status: 403, error: evil, evidence: 'none', source: '', bucket: evil, bytesIn: 0 },
      ...{ bytesOut: 0 },
    } as AuditRecord,
    0n,
  );
  const html = renderAuditPage({
    ...{ tenant: evil, from: 0, to: 2, fromTime: null, toTime: null, madeAt: 'now' },
    ...{ verified: [evil], notVerified: [], summary },
  });
  expect(html).not.toContain('<script');
  expect(html).not.toContain('\u202e');
  expect(html).toContain('&lt;script&gt;');
});
