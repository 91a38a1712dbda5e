// A mail server of tests that takes mails by STARTTLS alone, with a certificate of its own.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SMTPServer } from 'smtp-server';

export interface MailServer {
  /** What arrived: to whom, and the text of the message. */
  mails: { to: string[]; text: string }[];
  /** Of a gateway that sends its mails there, to people of cms.example.org. */
  settings: Record<string, string>;
  close(): Promise<void>;
}

export async function startMailServer(): Promise<MailServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-mail-server-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const files = ['-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...curve, ...names, ...files], {
    stdio: 'ignore',
  });
  const mails: MailServer['mails'] = [];
  const server = new SMTPServer({
    ...{ key: readFileSync(key), cert: readFileSync(cert), authOptional: true },
    onData: (stream, { secure, envelope }, done) => {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('end', () => {
        if (!secure) return done(new Error('only by STARTTLS'));
        const to = envelope.rcptTo.map((one) => one.address);
        mails.push({ to, text: Buffer.concat(parts).toString().replace(/=\r\n/g, '') });
        done();
      });
    },
  });
  server.on('error', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  return {
    mails,
    settings: {
      BURSAR_SMTP: `smtp://127.0.0.1:${port}?from=bursar@gateway.example.org`,
      ...{ BURSAR_MAIL_DOMAINS: 'cms.example.org', NODE_EXTRA_CA_CERTS: cert },
    },
    close: async () => {
      await new Promise<void>((resolve) => server.close(() => resolve()));
      rmSync(folder, { recursive: true });
    },
  };
}
