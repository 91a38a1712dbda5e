// `bursar limit`: what accounts may use, and what of it they have used.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { perWindow } from '../core/quota-terms.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, listAll } from './api-client.ts';
import { askWho, calling } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { addLimitFlags, type LimitFlags, readLimitFlags, readLimitsPatch } from './limit-flags.ts';
import { print, printJson, printNote, printTable } from './output.ts';

type Cap = Answers['GetLimit']['caps'][number];

interface Rated {
  rate?: { requests?: number; bytes?: number };
}

type Limited = Answers['GetLimit'];

const settableHelp =
  'tenant:cms, principal:cms/alice, bucket:cms/raw, prefix:cms/raw/run1/, writer:cms/alice or, ' +
  'in the bucket cms/raw, writer:cms/raw/cms/alice';
const accountHelp = `${settableHelp}; token:JTI`;

export function addLimitCommands(program: Command): void {
  const limit = program.command('limit').description('limits: how much an account may use');
  addSet(limit);
  limit
    .command('show [account]')
    .description(
      `show an account's limits, and what is left of them (${accountHelp}); without one your own`,
    )
    .action(
      calling(
        (account: string | undefined) => async (connection) => ({
          method: 'GET',
          path: ['limits', account ?? (await ownAccount(connection))],
        }),
        showOne,
      ),
    );
  limit
    .command('list')
    .description('list the accounts with limits, but for tokens (see bursar token list)')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const limits = await listAll<Limited>(connection, ['limits'], 'limits');
      if (flags.json) printJson(limits);
      else show(limits);
    });
  limit
    .command('delete <account>')
    .description('take all limits of an account away; what it used stays counted')
    .action(calling((account: string) => ({ method: 'DELETE', path: ['limits', account] })));
  limit
    .command('reconcile <account>')
    .description('count as unused what was set aside when the gateway died (for operators)')
    .action(
      calling((account: string) => {
        return { method: 'POST', path: ['limits', account, 'reconcile'] };
      }, showOne),
    );
}

async function ownAccount(connection: Connection): Promise<string> {
  const { tenant, principal } = await askWho(connection);
  return `principal:${tenant}/${principal}`;
}

function addSet(limit: Command): void {
  const command = limit
    .command('set <account>')
    .description(`change an account's limits; those not named stay (${settableHelp})`)
    .option('--only', 'take away all limits that are not named');
  addLimitFlags(command)
    .addHelpText('after', setHelp)
    .action(
      calling((account: string, given: LimitFlags & { only?: true }) => {
        const body = given.only ? readLimitFlags(given) : readLimitsPatch(given);
        if (body === undefined || Object.keys(body).length === 0) {
          throw new CommandFailure('usage', 'say which limit, such as --spend month=12.50');
        }
        return { method: given.only ? 'PUT' : 'PATCH', path: ['limits', account], body };
      }, showOne),
    );
}

const setHelp = `
An amount is of one window: minute, hour, day or month, of the UTC calendar, or total, of all time.
What is stored has no window. \`none\` takes a limit away.

  bursar limit set principal:cms/alice --spend month=20 --egress day=50GiB,month=500GiB
  bursar limit set bucket:cms/raw --stored-bytes 1TiB --stored-objects 1000000
  bursar limit set prefix:cms/raw/run1/ --stored-bytes 100GiB --spend month=5
  bursar limit set writer:cms/alice --stored-bytes 500GiB
  bursar limit set writer:cms/raw/cms/alice --stored-objects 10000
  bursar limit set tenant:cms --requests hour=100000 --rate requests=50,bytes=10MiB
  bursar limit set principal:cms/alice --egress month=none`;

const heading = [
  ...['ACCOUNT', 'METER', 'WINDOW', 'LIMIT', 'USED', 'LOST', 'RESERVED', 'LEFT', 'RESETS'],
];

function showOne(one: Limited): void {
  if (one.limits === null) print(`${one.account} has no limits`);
  else show([one]);
}

function show(limited: readonly Limited[]): void {
  const rowsBy = (shownOf: ShownOf) =>
    limited.flatMap((one) => rowsOf(one, shownOf).map((row) => [one.account, ...row]));
  printTable(false, { json: null, heading, rows: rowsBy(showAmount), csv: rowsBy(exactly) });
  for (const { account, caps, warnings } of limited) {
    for (const warning of warnings) process.stderr.write(`bursar: ${warning}\n`);
    for (const { meter, window } of caps.filter(({ exceeded }) => exceeded)) {
      const of = `${meter}${perWindow(window)}`;
      printNote(`${account} has used more ${of} than its limit: all more is refused.`);
    }
  }
}

type ShownOf = (meter: string, amount: string, limit?: string) => string;

const exactly: ShownOf = (_, amount) => amount;

function rowsOf({ limits, caps }: Limited, shownOf: ShownOf): string[][] {
  const rates = Object.entries((limits as Rated | null)?.rate ?? {}).map(([what, most]) => {
    const [shown, exact] = [showRate(what, most), String(most)];
    const meter = shownOf === exactly ? `rate ${what}` : 'rate';
    return [meter, 'second', shownOf === exactly ? exact : shown, '', '', '', '', ''];
  });
  return [...caps.map((cap) => rowOf(cap, shownOf)), ...rates];
}

/** The most a second, as people read it: `50 requests`, `10.0 MiB`. */
export function showRates(limits: Rated | null): string[] {
  return Object.entries(limits?.rate ?? {}).map(([what, most]) => showRate(what, most));
}

function showRate(what: string, most: number): string {
  return what === 'bytes' ? formatBytes(most, most) : `${most} requests`;
}

function rowOf({ meter, window, resetAt, ...amounts }: Cap, shownOf: ShownOf): string[] {
  const { limit, used, lost, reserved, left } = amounts;
  const shown = [limit, used, lost, reserved, left].map((amount) => shownOf(meter, amount, limit));
  return [meter, window, ...shown, resetAt ?? 'never'];
}

/** As people read it, in the units of its limit; --json has it exactly. */
export function showAmount(meter: string, amount: string, limit = '0'): string {
  if (meter === 'spend') return `${amount} USD`;
  return meter.endsWith('Bytes') ? formatBytes(Number(amount), Number(limit)) : amount;
}
