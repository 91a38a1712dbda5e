// A KMS for tests: moto's, a server of its own in another language, on a free loopback port. Its
// keys live as long as it does. Only what is started here is ever signalled.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface KmsServer {
  /** `http://127.0.0.1:PORT` */
  endpoint: string;
  region: string;
  stop(): Promise<void>;
}

const startMsMax = 60_000;

/** For who talks to it: any key will do. */
export const kmsCredentials = {
  AWS_ACCESS_KEY_ID: 'TESTKMSACCESSKEY',
  AWS_SECRET_ACCESS_KEY: 'test-kms-secret',
  AWS_EC2_METADATA_DISABLED: 'true',
};

/** Starts moto with the Python at `path` (see tools.ts). Throws when it does not come up. */
export async function startKms(path: string): Promise<KmsServer> {
  const args = ['-m', 'moto.server', '-H', '127.0.0.1', '-p', '0'];
  const child = spawn(path, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const endpoint = await listening(child);
  return {
    endpoint,
    region: 'eu-central-1',
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = '';
    const fail = (why: string) => {
      child.kill('SIGKILL');
      reject(new Error(`moto ${why}:\n${output}`));
    };
    const timer = setTimeout(fail, startMsMax, `did not listen within ${startMsMax} ms`);
    const failEnded = (status: number | null) => fail(`ended with ${status}`);
    child.once('error', (error) => fail(error.message));
    child.once('exit', failEnded);
    // It goes on to say what it is asked.
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const found = /Running on (http:\/\/127\.0\.0\.1:\d+)\n/.exec(output)?.[1];
      if (!found) return;
      clearTimeout(timer);
      child.off('exit', failEnded);
      resolve(found);
    });
  });
}
