// `bursar key`: the keys of principals, of both kinds. An access key's id is 20 capitals and
// digits, a public key's the 43 characters of its thumbprint, so one command serves both.
import { readFileSync, rmSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { generatePrivateKey, renderPrivateKey } from '../authz/tokens/keys.ts';
import { isObject } from '../authz/tokens/strict-json.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { newAsymmetricKeyId, newSecretAccessKey } from '../core/ids.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { renderCredentials } from '../server/folder/credentials-file.ts';
import { type Connection, callApi, listAll, readGatewayUrl } from './api-client.ts';
import { askOwnId, type Columns, calling, pathIn, printEntries } from './api-command.ts';
import { choice, connect, splitId } from './command-arguments.ts';
import { createEnrolment, deriveAsymmetricKey } from './key-files.ts';
import { print, printJson, writeOutput } from './output.ts';

type AccessKey = Answers['GetAccessKey'] & Partial<Answers['CreateAccessKey']>;
type PublicKey = Answers['GetPublicKey'];

const keys: Columns<AccessKey | PublicKey> = {
  heading: ['KEY', 'KIND', 'ACTIVE', 'CREATED'],
  row: (one) => [
    ...[one.accessKeyId ?? one.thumbprint ?? '', kindOf(one)],
    ...[one.active ? 'yes' : 'no', one.createdAt],
  ],
};

const idHelp = 'an access key id, or the thumbprint of a public key';

export function addKeyCommands(program: Command): void {
  const key = program.command('key').description('keys of principals');
  addCreate(key);
  addEnroll(key);
  addList(key);
  for (const [name, active, description] of [
    ['deactivate', false, 'switch a key off, with all that was made with it'],
    ['activate', true, 'switch a key on again'],
  ] as const) {
    key
      .command(name)
      .argument('<tenant/name>')
      .argument('<id>', idHelp)
      .description(description)
      .action(
        calling((id: string, keyId: string) => {
          return { method: 'PATCH', path: keyPath(id, keyId), body: { active } };
        }, keys),
      );
  }
  key
    .command('delete')
    .argument('<tenant/name>')
    .argument('<id>', idHelp)
    .description('delete a key; it and all that was made with it stop working at once')
    .action(
      calling((id: string, keyId: string) => ({ method: 'DELETE', path: keyPath(id, keyId) })),
    );
}

function addCreate(key: Command): void {
  key
    .command('create <tenant/name>')
    .description('create an access key; its secret is shown only now')
    .action(
      calling(
        (id: string) => ({ method: 'POST', path: accessKeysOf(id), body: {} }),
        ({ accessKeyId, secretAccessKey }: AccessKey) => {
          print(`aws_access_key_id = ${accessKeyId}`);
          print(`aws_secret_access_key = ${secretAccessKey}`);
        },
      ),
    );
}

interface EnrollFlags {
  key?: string;
  proof?: string;
  audience?: string;
}

function addEnroll(key: Command): void {
  key
    .command('enroll <tenant/name>')
    .description('enrol a public key, so that what its private half signs is taken')
    .option('--key <file>', 'your private key or SigV4A credentials, which stay here')
    .option('--proof <file>', "what `bursar key proof --json` made on its owner's machine")
    .option('--audience <url>', "the gateway's URL (default: as it says itself)")
    .action(async (id: string, given: EnrollFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const path = publicKeysOf(id);
      const body = await readEnrolment(connection, id, given);
      const { json } = await callApi(connection, { method: 'POST', path, body });
      printEntries(flags.json, keys, json, [json as PublicKey]);
    });
}

/** The key and the proof that it is held. Throws CommandFailure. */
async function readEnrolment(
  connection: Connection,
  principal: string,
  { key: file, proof, audience }: EnrollFlags,
): Promise<object> {
  if ((file === undefined) === (proof === undefined)) {
    throw new CommandFailure('usage', 'say which key: --key FILE or --proof FILE');
  }
  if (file === undefined) return readProof(proof as string);
  const url = audience ?? (await readGatewayUrl(connection));
  return createEnrolment(file, { audience: url, principal });
}

function readProof(file: string): object {
  try {
    const enrolment: unknown = JSON.parse(readFileSync(file === '-' ? 0 : file, 'utf8'));
    if (isObject(enrolment)) return enrolment;
  } catch (error) {
    const reason = messageOfFailure(error);
    throw new CommandFailure('failed', `cannot read a proof from ${file}: ${reason}`, error);
  }
  throw new CommandFailure('failed', `${file} is not what \`bursar key proof --json\` makes`);
}

function addList(key: Command): void {
  key
    .command('list [tenant/name]')
    .description("list a principal's keys, or your own, without secrets")
    .action(async (named: string | undefined, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const id = named ?? (await askOwnId(connection));
      const accessKeys = await listAll<AccessKey>(connection, accessKeysOf(id), 'accessKeys');
      const publicKeys = await listAll<PublicKey>(connection, publicKeysOf(id), 'publicKeys');
      // One that verifies SigV4A is shown by its access key.
      const all = [...accessKeys, ...publicKeys.filter((one) => one.accessKeyId === null)];
      printEntries(flags.json, keys, all, all);
    });
}

function kindOf({ accessKeyId, thumbprint }: AccessKey | PublicKey): string {
  if (accessKeyId === null) return 'public key, for tokens';
  return thumbprint === null ? 'access key' : 'access key, SigV4A';
}

function accessKeysOf(id: string): string[] {
  return [...pathIn('principals', id), 'access-keys'];
}

function publicKeysOf(id: string): string[] {
  return [...pathIn('principals', id), 'public-keys'];
}

const thumbprintForm = /^[A-Za-z0-9_-]{43}$/;

function keyPath(principal: string, id: string): string[] {
  return [...(thumbprintForm.test(id) ? publicKeysOf : accessKeysOf)(principal), id];
}

// `bursar key new|proof`: keys that principals make themselves. They need no gateway, and nothing
// that is private leaves the machine.

const algorithms = { ed25519: 'EdDSA', p256: 'ES256' } as const;

interface NewFlags {
  out: string;
  algorithm: keyof typeof algorithms;
  format: 'jwk' | 'pem';
  sigv4a?: boolean;
  json?: boolean;
}

/** Adds the commands to the group `key`, which has others already. */
export function addKeyPairCommands(program: Command): void {
  const key = program.commands.find((one) => one.name() === 'key') as Command;
  addNew(key);
  addProof(key);
}

function addNew(key: Command): void {
  const names = Object.keys(algorithms);
  key
    .command('new')
    .description('make a private key, and beside it FILE.pub, the public half to enrol')
    .requiredOption('--out <file>', 'where the private key goes; only you may read it')
    .option('--algorithm <name>', names.join(' or '), choice(names), 'ed25519')
    .option('--format <format>', 'jwk, or pem (PKCS#8)', choice(['jwk', 'pem']), 'jwk')
    .addOption(
      new Option(
        '--sigv4a',
        'make a credentials file for S3 clients that sign by SigV4A',
      ).conflicts(['algorithm', 'format']),
    )
    .option('--json', 'answer with JSON')
    .action((flags: NewFlags) => {
      const made = flags.sigv4a ? makeCredentials(flags) : makeKey(flags);
      if (flags.json) return printJson(made);
      if (made.accessKeyId !== undefined) print(`access key  ${made.accessKeyId}`);
      print(`thumbprint  ${made.thumbprint}`);
      print(`public key  ${JSON.stringify(made.jwk)}`);
    });
}

interface Made {
  accessKeyId?: string;
  jwk: object;
  thumbprint: string;
}

function makeKey({ out, algorithm, format }: NewFlags): Made {
  let made = generatePrivateKey(algorithms[algorithm]);
  // The thumbprint becomes an argument of commands, which would take a leading hyphen for a flag.
  while (made.publicKey.thumbprint.startsWith('-')) {
    made = generatePrivateKey(algorithms[algorithm]);
  }
  const { jwk, thumbprint } = made.publicKey;
  writeOutput(out, renderPrivateKey(made, format), { mode: 0o600, ifExists: 'refuse' });
  try {
    const text = `${JSON.stringify(jwk)}\n`;
    writeOutput(`${out}.pub`, text, { mode: 0o644, ifExists: 'refuse' });
  } catch (error) {
    // Nobody can have used the key yet.
    rmSync(out);
    throw error;
  }
  return { jwk, thumbprint };
}

// boto3 has no setting in a file for SigV4A, and whoever relied on one would not be told.
const credentialsComment =
  'Made by "bursar key new --sigv4a", for clients with Config(signature_version="s3v4a") or ' +
  'the like.';

function makeCredentials({ out }: NewFlags): Made {
  const accessKeyId = newAsymmetricKeyId();
  const secretAccessKey = newSecretAccessKey();
  const { jwk, thumbprint } = deriveAsymmetricKey(accessKeyId, secretAccessKey).publicKey;
  const credentials = { accessKeyId, secretAccessKey, region: 'us-east-1', endpoint: undefined };
  const text = renderCredentials(credentialsComment, credentials);
  writeOutput(out, text, { mode: 0o600, ifExists: 'refuse' });
  return { accessKeyId, jwk, thumbprint };
}

interface ProofFlags {
  key: string;
  audience: string;
  nonce?: string;
  json?: boolean;
}

function addProof(key: Command): void {
  key
    .command('proof')
    .argument('<tenant/name>', 'the principal whose key it will be')
    .description('prove that you hold a private key, for enrolling its public half')
    .requiredOption('--key <file>', 'the private key, or the credentials file of a SigV4A key')
    .requiredOption('--audience <url>', "the gateway's URL")
    .option('--nonce <nonce>', 'what the gateway gave out for this enrolment')
    .option('--json', 'the public key too, as the enrolment takes them')
    .action((principal: string, { key: file, audience, nonce, json }: ProofFlags) => {
      splitId(principal);
      const enrolment = createEnrolment(file, { audience, principal, nonce });
      if (json) printJson(enrolment);
      else print(enrolment.proof);
    });
}
