// `bursar key new|proof`: keys that principals make themselves. They need no gateway, and nothing
// that is private leaves the machine.
import { rmSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { generatePrivateKey, renderPrivateKey } from '../authz/tokens/keys.ts';
import { newAsymmetricKeyId, newSecretAccessKey } from '../core/ids.ts';
import { renderCredentials } from '../server/folder/credentials-file.ts';
import { choice, splitId } from './command-arguments.ts';
import { createEnrolment, deriveAsymmetricKey } from './key-files.ts';
import { print, printJson } from './output.ts';
import { writeOutput } from './output-file.ts';

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
  principal: string;
  nonce?: string;
  json?: boolean;
}

function addProof(key: Command): void {
  key
    .command('proof')
    .description('prove that you hold a private key, for enrolling its public half')
    .requiredOption('--key <file>', 'the private key, or the credentials file of a SigV4A key')
    .requiredOption('--audience <url>', "the gateway's URL")
    .requiredOption('--principal <tenant/name>', 'the principal whose key it will be')
    .option('--nonce <nonce>', 'what the gateway gave out for this enrolment')
    .option('--json', 'the public key too, as the enrolment takes them')
    .action(({ key: file, audience, principal, nonce, json }: ProofFlags) => {
      splitId(principal);
      const enrolment = createEnrolment(file, { audience, principal, nonce });
      if (json) printJson(enrolment);
      else print(enrolment.proof);
    });
}
