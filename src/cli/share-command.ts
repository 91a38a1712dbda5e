// `bursar share`: links with which anybody can read an object or a folder, without an account.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, listing } from './api-command.ts';
import { connect, parsePositive } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { noteMade, readLifetime } from './token-restrictions.ts';

const shares: Columns<Answers['ListShares']['shares'][number]> = {
  heading: ['ID', 'BY', 'OPENS', 'EXPIRES', 'DOWNLOADS', 'STATE'],
  row: (one) => [
    ...[one.id, one.principal, `s3://${one.bucket}/${one.key}`, one.expiresAt],
    `${one.downloads}${one.downloadsMax === null ? '' : ` of ${one.downloadsMax}`}`,
    one.state,
  ],
};

interface ShareFlags {
  expires: string;
  downloads?: number;
}

export function addShareCommands(program: Command): void {
  const share = program
    .command('share')
    .description('links by which anybody can read an object or a folder');
  share
    .command('create <s3-url>', { isDefault: true })
    .description('make a link to the object or the folder s3://BUCKET/KEY')
    .option('--expires <duration>', 'how long it is valid, at most 366d', '7d')
    .option(
      '--downloads <count>',
      'how many downloads may be begun (default: any number)',
      parsePositive,
    )
    .action(
      calling(
        (url: string, { expires, downloads }: ShareFlags) => {
          const body = {
            ...splitUrl(url),
            expiresIn: readLifetime(expires),
            downloads: downloads ?? null,
          };
          return { method: 'POST', path: ['shares'], body };
        },
        ({ url, id, expiresAt }: Answers['CreateShare']) => {
          print(url);
          noteMade(id, expiresAt);
        },
      ),
    );
  share
    .command('list')
    .description('share links, those that ended too; never their URLs')
    .action(listing(shares, 'shares', () => ['shares']));
  share
    .command('delete <id>')
    .description('end a share link at once; its id is what stands before the dot in the URL')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      await callApi(connection, { method: 'DELETE', path: ['shares', id] });
      if (flags.json) printJson({ deleted: id });
      else print(`deleted ${id}`);
    });
}

function splitUrl(url: string): { bucket: string; key: string } {
  const [, bucket, key = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/s.exec(url) ?? [];
  if (bucket !== undefined) return { bucket, key };
  throw new CommandFailure('usage', `${url} must be s3://BUCKET/KEY`);
}
