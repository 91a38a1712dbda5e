// `bursar explain` and `bursar whoami`: what is allowed, and by which rule.
import type { Command } from 'commander';
import { printable } from '../core/printable.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect, parseBoolean } from './command-arguments.ts';
import { print, printJson, printTable } from './output.ts';

interface ExplainFlags {
  principal?: string;
  group?: string[];
  action: string;
  resource?: string;
  source?: string;
  secure?: boolean;
  time?: string;
}

type Explanation = Answers['Explain'];
type Self = Answers['WhoAmI'];

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
    .action(async (given: ExplainFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const { principal, group: groups, action, resource, source, secure, time } = given;
      const body = { principal, groups, action, resource, source, secure, time };
      const { json } = await callApi(connection, { method: 'POST', path: ['explain'], body });
      if (flags.json) return printJson(json);
      const { allowed, by, reason, considered } = json as Explanation;
      print(printable(`${allowed ? 'allowed' : 'denied'} by ${by}: ${reason}`));
      if (considered.length === 0) return;
      const rows = considered.map((one) => [
        one.name,
        one.effect,
        one.condition === undefined ? one.verdict : `${one.verdict}: ${one.condition}`,
      ]);
      printTable(false, { json, heading: ['RULE', 'EFFECT', 'VERDICT'], rows });
    });
  program
    .command('whoami')
    .description('say who one is to the gateway')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
      const { tenant, principal, role, groups, evidence, delegation } = json as Self;
      printTable(flags.json, {
        json,
        heading: ['PRINCIPAL', 'ROLE', 'GROUPS', 'EVIDENCE', 'SCOPE', 'EXPIRES'],
        rows: [
          [
            ...[`${tenant}/${principal}`, role, groups.join(','), evidence],
            ...[delegation?.scope ?? '', delegation?.expiresAt ?? ''],
          ],
        ],
      });
    });
}
