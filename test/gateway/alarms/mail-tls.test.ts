// Mails to a server that is not on this machine: by STARTTLS, with a certificate of its name that
// an authority vouches for, or not at all. The name is one of the network here, and leads to a
// server of this test; a process of its own trusts the test's authority.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runTool } from '../../tooling/tools.ts';

const host = 'mail.example.org';
let folder: string;
const at = (name: string) => join(folder, name);
const server: { running?: SMTPServer } = {};
/** What was said to the server that nobody else should hear. */
let heard: string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-mail-tls-'));
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  for (const ca of ['known', 'unknown']) {
    const out = ['-keyout', at(`${ca}.key`), '-out', at(`${ca}.pem`)];
    openssl('req', '-x509', '-days', '2', ...curve, '-subj', `/CN=${ca}`, ...out);
  }
  for (const [name, ca, dns] of [
    ['right', 'known', host],
    ['other', 'known', 'mail.example.net'],
    ['forged', 'unknown', host],
  ] as const) {
    const out = ['-keyout', at(`${name}.key`), '-out', at(`${name}.csr`)];
    openssl('req', ...curve, '-subj', `/CN=${dns}`, ...out);
    writeFileSync(at(`${name}.ext`), `subjectAltName=DNS:${dns}\n`);
    const by = ['-CA', at(`${ca}.pem`), '-CAkey', at(`${ca}.key`), '-CAcreateserial'];
    const signed = ['-days', '2', '-extfile', at(`${name}.ext`), '-out', at(`${name}.pem`)];
    openssl('x509', '-req', '-in', at(`${name}.csr`), ...by, ...signed);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

async function serve(options: SMTPServerOptions): Promise<number> {
  heard = [];
  const running = new SMTPServer({
    ...{ authOptional: true, allowInsecureAuth: true, ...options },
    onAuth: ({ username, password }, { secure }, done) => {
      heard.push(`${password} ${secure ? 'in TLS' : 'in plain text'}`);
      done(null, { user: username });
    },
    onData: (stream, { secure }, done) => {
      heard.push(`a mail ${secure ? 'in TLS' : 'in plain text'}`);
      stream.resume().on('end', () => done());
    },
  });
  running.on('error', () => {});
  server.running = running;
  await new Promise<void>((ready) => running.listen(0, '127.0.0.1', ready));
  return (running.server.address() as AddressInfo).port;
}

/** `taken`, or why it was not. */
async function mail(port: number): Promise<string> {
  const script = `
    import dns from 'node:dns';
    dns.Resolver.prototype.resolve4 = (name, done) => done(null, ['127.0.0.1']);
    const { Mailer } = await import(${JSON.stringify(resolve('dist/gateway/alarms/mail.js'))});
    const server = new URL('smtp://user:secret@${host}:${port}');
    const mailer = new Mailer({ server, from: 'bursar@example.org', domains: [] }, 20_000);
    const text = { id: '1', subject: 's', text: 't' };
    const sent = mailer.send('alice@example.org', text, AbortSignal.timeout(30_000));
    console.log(await sent.then(() => 'taken', (error) => error.message));`;
  const env = { PATH: process.env.PATH, NODE_EXTRA_CA_CERTS: at('known.pem') };
  const said = await runTool(process.execPath, ['--input-type=module', '-e', script], env);
  await new Promise<void>((done) => server.running?.close(() => done()));
  return said.trim();
}

const certified = (name: string) => ({
  key: readFileSync(at(`${name}.key`)),
  cert: readFileSync(at(`${name}.pem`)),
});

it('are sent in TLS, the password too, where the certificate is right', async () => {
  expect(await mail(await serve(certified('right')))).toBe('taken');
  expect(heard).toEqual(['secret in TLS', 'a mail in TLS']);
});

it.each([
  ['of another name', 'other', /altnames|does not match/i],
  ['of an authority that nobody knows', 'forged', /unable to verify|self.signed|local issuer/i],
] as const)('are not sent to a certificate %s', async (_, name, why) => {
  expect(await mail(await serve(certified(name)))).toMatch(why);
  expect(heard).toEqual([]);
});

it('are not sent where there is no STARTTLS', async () => {
  expect(await mail(await serve({ disabledCommands: ['STARTTLS'] }))).toMatch(/STARTTLS/);
  expect(heard).toEqual([]);
});
