// `bursar credentials`: trades a token for temporary keys, in the words that AWS's clients want of
// a `credential_process`. Invariant: the token's key proves itself on this very request, and never
// leaves this machine.
// Specification: "Sourcing credentials with an external process" of the AWS SDKs and tools
// reference.
import { createHash } from 'node:crypto';
import { type Command, InvalidArgumentError } from 'commander';
import { readLinks } from '../authz/tokens/chain.ts';
import { linkType } from '../authz/tokens/link.ts';
import { createProof } from '../authz/tokens/proof.ts';
import { isObject, parseStrictObject } from '../authz/tokens/strict-json.ts';
import { nowMs } from '../core/clock.ts';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { childOf, parseXml, textOf, type XmlNode } from '../gateway/http/xml.ts';
import { parseDuration, parseUrl } from '../server/settings/quantities.ts';
import { exchange, reach } from './api-client.ts';
import { loadPrivateKey, readText } from './key-files.ts';
import { printJson } from './output.ts';
import { readToken, refusing } from './token-files.ts';

interface CredentialsFlags {
  tokenFile: string;
  key?: string;
  gateway?: string;
  tenant?: string;
  duration?: number;
  policy?: string;
}

export function addCredentialsCommand(program: Command): void {
  program
    .command('credentials')
    .description('trade a token for temporary access keys, as a credential_process of AWS clients')
    .requiredOption('--token-file <file>', 'the token; - is standard input')
    .option('--key <file>', 'the private key that the token is bound to')
    .option('--gateway <url>', "the gateway (default: the token's audience)")
    .option('--tenant <name>', "the tenant (default: that of the token's principal)")
    .option(
      '--duration <duration>',
      'how long the keys are valid, 15m to 12h (default: 1h)',
      duration,
    )
    .option('--policy <file>', 'a session policy (IAM JSON) that allows less than the token')
    .action(async (flags: CredentialsFlags) => {
      const token = readToken(flags.tokenFile);
      const { tenant, gateway } = destinationOf(token, flags);
      const form = new URLSearchParams({
        Action: 'AssumeRoleWithWebIdentity',
        Version: '2011-06-15',
        RoleArn: `arn:aws:iam::${tenant}:role/bursar`,
        RoleSessionName: 'bursar-credentials',
        WebIdentityToken: token,
      });
      if (flags.duration !== undefined) {
        form.set('DurationSeconds', String(Math.floor(flags.duration / 1000)));
      }
      if (flags.policy !== undefined) form.set('Policy', readText(flags.policy).trim());
      const answer = await post(gateway, form.toString(), { token, keyFile: flags.key });
      printJson(keysOf(answer, gateway));
    });
}

function duration(text: string): number {
  try {
    return parseDuration(text);
  } catch (error) {
    throw new InvalidArgumentError(messageOfFailure(error));
  }
}

/** From flags, else from what a token of Bursar says of itself. */
function destinationOf(
  token: string,
  flags: CredentialsFlags,
): { tenant: string; gateway: string } {
  const link = isOwn(token) ? refusing(() => readLinks(token))[0]?.link : undefined;
  const tenant = flags.tenant ?? link?.subject.split('/', 1)[0];
  const gateway = flags.gateway ?? link?.audience;
  if (tenant === undefined || gateway === undefined) {
    throw new CommandFailure(
      'usage',
      'the token is not one of Bursar, so --gateway and --tenant must say where it is used',
    );
  }
  const url = orFail('usage', `the gateway ${gateway} `, () => parseUrl(gateway));
  return { tenant, gateway: url };
}

function isOwn(token: string): boolean {
  const header = parseStrictObject(Buffer.from(token.split('.', 1)[0] as string, 'base64url'));
  return isObject(header) && header.typ === linkType;
}

async function post(
  gateway: string,
  body: string,
  { token, keyFile }: { token: string; keyFile: string | undefined },
): Promise<{ status: number; text: string }> {
  const url = `${gateway}/`;
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    'content-length': String(Buffer.byteLength(body)),
  };
  if (keyFile !== undefined) {
    const key = loadPrivateKey(keyFile);
    const contentSha256 = createHash('sha256').update(body).digest();
    const proven = { key, token, contentSha256, nowMs: nowMs() };
    Object.assign(
      headers,
      refusing(() => createProof({ method: 'POST', url, headers }, proven)),
    );
  }
  return reach(gateway, () => exchange(url, 'POST', headers, body));
}

/** What a `credential_process` prints. */
function keysOf({ status, text }: { status: number; text: string }, gateway: string): object {
  const root = status === 200 ? 'AssumeRoleWithWebIdentityResponse' : 'ErrorResponse';
  let document: XmlNode;
  try {
    document = parseXml(Buffer.from(text), root);
  } catch (error) {
    const message = `${gateway} answered ${status}, which is not an answer of Bursar`;
    throw new CommandFailure('failed', message, error);
  }
  if (status !== 200) {
    const error = childOf(document, 'Error') ?? document;
    const [code = '', message = ''] = [textOf(error, 'Code'), textOf(error, 'Message')];
    throw new CommandFailure('failed', printable(`${message} (${code})`));
  }
  const result = childOf(document, 'AssumeRoleWithWebIdentityResult') ?? document;
  const keys = childOf(result, 'Credentials') ?? document;
  const names = ['AccessKeyId', 'SecretAccessKey', 'SessionToken', 'Expiration'];
  const members = names.map((name) => [name, textOf(keys, name)]);
  return { Version: 1, ...Object.fromEntries(members) };
}
