// The worked examples of docs/admin/limits.md, run in one shell as an admin would, from the first
// to the last: what the page says that they print, they print.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, clientEnvironment, describeWithTool } from '../tooling/tools.ts';
import { blocksOf, readPage, root } from './markdown.ts';

const documentedAddress = '127.0.0.1:9000';
const main = join(root, 'app/main.js');
const { text } = readPage('docs/admin/limits.md');
const blocks = blocksOf(text);
/** Commands, and what the block behind them says that they print. */
const examples = blocks.flatMap((block, i) => {
  const next = blocks[i + 1];
  const printed = next?.language === '' ? next.code : null;
  return block.language === 'sh' ? [{ code: block.code, printed }] : [];
});

describeWithTool(awsCli, "the admin's page of limits", (aws) => {
  let gateway: ServedGateway;
  let folder: string;
  let outputs: string[];

  beforeAll(async () => {
    gateway = await startServedGateway();
    folder = mkdtempSync(join(tmpdir(), 'bursar-limits-page-'));
    const address = gateway.endpoint.replace('http://', '');
    const script = [
      `npx() { shift; '${process.execPath}' '${main}' "$@"; }`,
      `aws() { '${aws}' "$@"; }`,
      ...examples.map(({ code }) => `${code.replaceAll(documentedAddress, address)}\necho '@@@'`),
    ].join('\n');
    const printed = await runBash(script, folder, environmentOf(gateway));
    outputs = printed.split('@@@\n');
  }, 120_000);

  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await gateway.stop();
  });

  it.each(examples.map((example, i) => [i, example] as const))(
    'prints what it says: example %i',
    (i, { printed }) => {
      const output = outputs[i] ?? 'nothing: the shell ended before it';
      if (printed !== null) expect(comparable(output)).toEqual(comparable(printed));
      else expect(output).not.toMatch(/^bursar: |error occurred|failed/m);
    },
  );
});

/**
 * Without what differs each time: times, ids, indexes, and what is set aside, of which some is
 * given back while nothing happens.
 */
function comparable(output: string): string[] {
  let hidden: number[] = [];
  const lines = output.trim().split('\n');
  return lines.map((line) => {
    const cells = line.trim().split(/ {2,}/);
    if (cells[0] === 'ACCOUNT') {
      hidden = [cells.indexOf('RESERVED'), cells.indexOf('LEFT')];
    }
    const kept = cells.filter((_, i) => !/^\w+:/.test(cells[0] ?? '') || !hidden.includes(i));
    return kept
      .join(' | ')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replace(/^\d+ \| TIME/, 'INDEX | TIME')
      .replace(/ \| key:\w+/, ' | KEY')
      .replace(/ \| [\dA-F]{16}/, ' | REQUEST')
      .replace(/^[\w-]{22} \| "night"$/, 'TOKEN | "night"');
  });
}

/** The operator for our commands, and nobody yet for the AWS CLI. */
function environmentOf(gateway: ServedGateway): NodeJS.ProcessEnv {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...rest } = clientEnvironment(gateway);
  return {
    ...rest,
    BURSAR_ENDPOINT: gateway.endpoint,
    BURSAR_ACCESS_KEY_ID: AWS_ACCESS_KEY_ID,
    BURSAR_SECRET_ACCESS_KEY: AWS_SECRET_ACCESS_KEY,
  };
}

/** Both streams, as they come. */
function runBash(script: string, cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  mkdirSync(cwd, { recursive: true });
  const child = spawn('bash', ['-c', `exec 2>&1\n${script}`], { cwd, env });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    printed += part;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve(printed));
  });
}
