// `bursar token sign-request`: the headers that one request with a bound token needs, for clients
// that cannot sign themselves, such as curl. No gateway is asked.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { createProof } from '../authz/tokens/proof.ts';
import { nowMs } from '../core/clock.ts';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { collect } from './command-arguments.ts';
import { loadPrivateKey } from './key-files.ts';
import { print, printJson } from './output.ts';
import { readToken, refusing } from './token-files.ts';

interface SignFlags {
  key: string;
  tokenFile?: string;
  method: string;
  header?: string[];
  body?: string;
  dpop?: boolean;
  json?: boolean;
}

export function addSignRequest(token: Command): void {
  token
    .command('sign-request <url>')
    .description('the headers for one request with a bound token, a line each, as curl -H @- reads')
    .requiredOption('--key <file>', 'the private key that the token is bound to')
    .option('--token-file <file>', 'file with the token (default: standard input)')
    .option('--method <method>', 'of the request', 'GET')
    .option('--header <line>', 'another header of the request, "name: value"; repeatable', collect)
    .option('--body <file>', 'what will be sent, byte for byte')
    .option('--dpop', 'prove by DPoP, which is weaker')
    .option('--json', 'answer with JSON')
    .action((url: string, flags: SignFlags) => {
      if (!/^https?:/i.test(url) || !URL.canParse(url)) {
        throw new CommandFailure('usage', `${url} must be a URL, such as https://HOST/BUCKET/KEY`);
      }
      const given = readHeaders(flags.header);
      const request = { method: flags.method.toUpperCase(), url, headers: given };
      const proof = refusing(() =>
        createProof(request, {
          key: loadPrivateKey(flags.key),
          token: readToken(flags.tokenFile),
          kind: flags.dpop ? 'dpop' : 'message-signature',
          contentSha256: flags.body === undefined ? undefined : hashFile(flags.body),
          nowMs: nowMs(),
        }),
      );
      const headers = { ...given, ...proof };
      if (flags.json) return printJson(headers);
      for (const [name, value] of Object.entries(headers)) print(`${name}: ${value}`);
    });
}

function readHeaders(lines: readonly string[] = []): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name, value] = /^([\w-]+):\s*([\x20-\x7e]*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      throw new CommandFailure('usage', `--header ${line} must be "name: value"`);
    }
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

function hashFile(file: string): Buffer {
  const content = orFail('failed', `cannot read ${file}: `, () => readFileSync(file));
  return createHash('sha256').update(content).digest();
}
