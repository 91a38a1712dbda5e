// `bursar key`: the keys of principals, of both kinds. An access key's id is 20 capitals and
// digits, a public key's the 43 characters of its thumbprint, so one command serves both.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { isObject } from '../authz/tokens/strict-json.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { type Connection, callApi, listAll, readGatewayUrl } from './api-client.ts';
import { type Columns, calling, pathIn, printEntries } from './api-command.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { createEnrolment } from './key-files.ts';
import { print } from './output.ts';

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
    .command('list <tenant/name>')
    .description("list a principal's keys, without secrets")
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
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
