// `bursar serve`: takes the data folder, starts the gateway, says how to use it, and on SIGTERM or
// SIGINT lets requests finish, writes what is pending and ends with exit code 0.
import { resolve } from 'node:path';
import { isUnfinished } from '../backup/put-back.ts';
import { isStandby } from '../backup/shipping/follower.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { Operator } from '../instruments/operator-log.ts';
import { type RunningServer, startServer } from './composition.ts';
import { profileDefault } from './folder/credentials-file.ts';
import { openDataFolder } from './folder/data-folder.ts';
import { type Config, dataDefault } from './settings/config.ts';

/** Resolves when the gateway has stopped after a signal. Throws `CommandFailure`. */
export async function serve(config: Config): Promise<void> {
  // Also where somebody else made the folder, other users may read nothing of what is in it.
  process.umask(0o077);
  // Where standard output is a pipe, Node makes it non-blocking at its first use.
  void process.stdout;
  refuseUnfinished(config.data);
  using folder = await openDataFolder(config);
  const stopping = nextSignal();
  const gateway = await startServer(config, { folder, operator });
  process.stdout.write(welcome(config, gateway, folder.credentialsFile));
  const signal = await stopping;
  gateway.log.note(`${signal}: finishing what is under way`);
  await gateway.close();
}

/** Writes lines to standard error at once and in order, also when the process ends right after. */
const operator: Operator = {
  show: (line) => void process.stderr.write(`bursar: ${line}\n`),
  end: () => process.exit(1),
};

/** A new database would be in the way of the one that is being restored. */
function refuseUnfinished(data: string): void {
  if (isStandby(data)) {
    throw new CommandFailure(
      'failed',
      `${data} is a standby: bursar standby promote makes it a gateway`,
    );
  }
  if (!isUnfinished(data)) return;
  throw new CommandFailure('failed', `a restore to ${data} was not finished: run it again`);
}

/** The first signal asks to stop; a second one does not wait. */
function nextSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolveSignal) => {
    let asked = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(1);
        asked = true;
        resolveSignal(signal);
      });
    }
  });
}

/** What to paste next. Never shows a secret: terminals and service logs are kept. */
function welcome(
  config: Config,
  { endpoint, adminUrl }: Pick<RunningServer, 'endpoint' | 'adminUrl'>,
  credentialsFile: string,
): string {
  const credentials = quote(resolve(credentialsFile));
  // In a shell that has no variables of ours, commands look where the data is by default.
  const isFoundAlone = resolve(credentialsFile) === resolve(dataDefault, 'credentials');
  const session = `boto3.Session(profile_name="${profileDefault}")`;
  return `Bursar serves ${endpoint} (data in ${resolve(config.data)})

AWS CLI:
  export AWS_SHARED_CREDENTIALS_FILE=${credentials} AWS_PROFILE=${profileDefault}
  aws --endpoint-url ${endpoint} s3 mb s3://first
  aws --endpoint-url ${endpoint} s3 ls

Python, in the same shell:
  import boto3
  s3 = ${session}.client("s3", endpoint_url="${endpoint}")
  s3.put_object(Bucket="first", Key="hello.txt", Body=b"hello")

Administration${adminUrl === null ? '' : ` at ${adminUrl}`}, in this folder:
  npx bursar tenant list${isFoundAlone ? '' : ` --credentials ${credentials}`}
`;
}

/** For a POSIX shell. */
function quote(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
