// `bursar explain` and `bursar whoami`: what is allowed, and by which rule.
import type { Command } from 'commander';
import { printable } from '../core/printable.ts';
import { type Columns, calling } from './api-command.ts';
import type { Answers } from './api-types.ts';
import { parseBoolean } from './command-arguments.ts';
import { print, printTable } from './output.ts';

interface ExplainFlags {
  principal?: string;
  group?: string[];
  action: string;
  resource?: string;
  source?: string;
  secure?: boolean;
  time?: string;
}

const self: Columns<Answers['WhoAmI']> = {
  heading: ['PRINCIPAL', 'ROLE', 'GROUPS', 'EVIDENCE', 'SCOPE', 'EXPIRES'],
  row: ({ tenant, principal, role, groups, evidence, delegation }) => [
    ...[`${tenant}/${principal}`, role, groups.join(','), evidence],
    ...[delegation?.scope ?? '', delegation?.expiresAt ?? ''],
  ],
};

export function addExplainCommands(program: Command): void {
  program
    .command('explain')
    .description('say whether a principal may do something, and which rule or right decides')
    .option('--principal <tenant/name>', 'who (default: somebody without credentials)')
    .requiredOption('--action <name>', 's3:GetObject, s3:ListBucket, bursar:ListPrincipals; …')
    .option('--resource <name>', 'BUCKET/KEY, TENANT:BUCKET/KEY, BUCKET/PREFIX of a listing')
    .option('--group <name...>', "groups of another tenant's principal")
    .option('--source <address>', 'from there (default: from here)')
    .option('--secure <yes|no>', 'over TLS? (default: as this command)', parseBoolean)
    .option('--time <time>', 'at this time (RFC 3339; default: now)')
    .action(
      calling(({ principal, group: groups, action, ...where }: ExplainFlags) => {
        const { resource, source, secure, time } = where;
        const body = { principal, groups, action, resource, source, secure, time };
        return { method: 'POST', path: ['explain'], body };
      }, show),
    );
  program
    .command('whoami')
    .description('say who one is to the gateway')
    .action(calling(() => ({ method: 'GET', path: ['whoami'] }), self));
}

function show({ allowed, by, reason, considered }: Answers['Explain']): void {
  print(printable(`${allowed ? 'allowed' : 'denied'} by ${by}: ${reason}`));
  if (considered.length === 0) return;
  const rows = considered.map(({ name, effect, verdict, condition }) => [
    ...[name, effect, condition === undefined ? verdict : `${verdict}: ${condition}`],
  ]);
  printTable(false, { json: null, heading: ['RULE', 'EFFECT', 'VERDICT'], rows });
}
