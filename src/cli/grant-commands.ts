// `bursar grant`: the rules that say who may do what. Grants are written TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi } from './api-client.ts';
import { askWho, type Columns, calling, listing, pathIn, printEntries } from './api-command.ts';
import { connect, parseBoolean } from './command-arguments.ts';
import { showAmount, showRates } from './limit-commands.ts';
import { print, printJson, printTable, printWarnings } from './output.ts';
import { time as readTime, timeForms } from './times.ts';

type Grant = Omit<Answers['GetGrant'], 'warnings'>;

interface GrantFlags {
  subject: string[];
  action: string[];
  deny?: boolean;
  bucket?: string;
  prefix?: string;
  key?: string;
  alias?: string;
  conditions?: string;
}

const grants: Columns<Grant> = {
  heading: ['GRANT', 'EFFECT', 'SUBJECTS', 'ACTIONS', 'PLACE', 'ALIAS', 'CONDITIONS'],
  row: (one) => [
    `${one.tenant}/${one.name}`,
    one.effect,
    one.subjects.join(','),
    one.actions.join(','),
    placeOf(one),
    one.alias ?? '',
    one.conditions === undefined ? '' : JSON.stringify(one.conditions),
  ],
};

/** One, and whom it names that is nobody. */
function checked(one: Answers['GetGrant']): void {
  printEntries(false, grants, one, [one]);
  printWarnings(one.warnings);
}

export function addGrantCommands(program: Command): void {
  const grant = program.command('grant').description('grants: who may do what, and where');
  grant
    .command('set <tenant/name>')
    .description('make a grant, or replace the one of this name')
    .requiredOption(
      '--subject <subject...>',
      'principal:TENANT/NAME, group:TENANT/NAME, tenant:TENANT or anyone',
    )
    .requiredOption('--action <name...>', "s3:GetObject, 's3:*', bursar:ListPrincipals; …")
    .option('--deny', 'deny instead of allow; a denial wins')
    .option('--bucket <name>', 'in this bucket (default: in all, and what is about none)')
    .option(
      '--prefix <prefix>',
      'in this folder of the bucket: run1 means run1/, too, and not run10/',
    )
    .option('--key <key>', 'this one object')
    .option(
      '--alias <name>',
      'the name, TENANT-…, under which subjects of other tenants see the bucket',
    )
    .option('--conditions <json>', 'IAM\'s: {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}')
    .action(
      calling((id: string, given: GrantFlags) => {
        const { subject: subjects, action: actions, deny, alias } = given;
        const { bucket, prefix, key } = given;
        const effect = deny ? 'deny' : 'allow';
        const conditions = given.conditions && parseConditions(given.conditions);
        const body = { effect, subjects, actions, bucket, prefix, key, alias, conditions };
        return { method: 'PUT', path: pathIn('grants', id), body };
      }, checked),
    );
  grant
    .command('list <tenant>')
    .description("list a tenant's grants")
    .action(listing(grants, 'grants', (tenant: string) => ['tenants', tenant, 'grants']));
  grant
    .command('show <tenant/name>')
    .description('show a grant')
    .action(calling((id: string) => ({ method: 'GET', path: pathIn('grants', id) }), checked));
  grant
    .command('delete <tenant/name>')
    .description('delete a grant; it counts no more from the next request on')
    .action(calling((id: string) => ({ method: 'DELETE', path: pathIn('grants', id) })));
}

function parseConditions(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CommandFailure('usage', '--conditions must be JSON', cause);
  }
}

/** `*`: everywhere; `raw/2026/*`: below that, as 2026 or 2026/ say; `raw/x`: the one object. */
function placeOf({ bucket, prefix = '', key }: Grant): string {
  if (bucket === undefined) return '*';
  if (key !== undefined) return `${bucket}/${key}`;
  return prefix === '' || prefix.endsWith('/') ? `${bucket}/${prefix}*` : `${bucket}/${prefix}/*`;
}

// `bursar explain` and `bursar whoami`: what is allowed, and by which rule.

interface ExplainFlags {
  principal?: string;
  group?: string[];
  source?: string;
  secure?: boolean;
  time?: string;
}

export function addExplainCommands(program: Command): void {
  program
    .command('explain')
    .argument('<action>', 's3:GetObject, s3:ListBucket, bursar:ListPrincipals; …')
    .argument(
      '[resource]',
      's3://BUCKET/KEY, s3://TENANT:BUCKET/KEY, s3://BUCKET/PREFIX of a listing',
    )
    .description('say whether a principal may do something, and which rule or right decides')
    .option(
      '--principal <principal>',
      'who: alice of your tenant, or cms/alice (default: somebody without credentials)',
    )
    .option('--group <name...>', "groups of another tenant's principal")
    .option('--source <address>', 'from there (default: from here)')
    .option('--secure <yes|no>', 'over TLS? (default: as this command)', parseBoolean)
    .option('--time <time>', `at this time (${timeForms}; default: now)`, readTime)
    .action(
      calling((action: string, about: string | undefined, given: ExplainFlags) => {
        const resource = about?.replace(/^s3:\/\//, '');
        const { group: groups, principal: who, source, secure, time } = given;
        return async (connection) => {
          const isWhole = who === undefined || who.includes('/');
          const principal = isWhole ? who : `${(await askWho(connection)).tenant}/${who}`;
          const body = { principal, groups, action, resource, source, secure, time };
          return { method: 'POST', path: ['explain'], body };
        };
      }, show),
    );
  program
    .command('whoami')
    .description('say who one is to the gateway, with what rights and limits')
    .action(whoAmI);
}

function show({ allowed, by, reason, considered, chargedTo, warnings }: Answers['Explain']): void {
  print(printable(`${allowed ? 'allowed' : 'denied'} by ${by}: ${reason}`));
  if (allowed && chargedTo.length > 0) print(`charged to ${chargedTo.join(', ')}`);
  printWarnings(warnings);
  if (considered.length === 0) return;
  const rows = considered.map(({ name, effect, verdict, condition }) => [
    ...[name, effect, condition === undefined ? verdict : `${verdict}: ${condition}`],
  ]);
  printTable(false, { json: null, heading: ['RULE', 'EFFECT', 'VERDICT'], rows });
}

type Self = Answers['WhoAmI'];
type Limits = Answers['GetLimit'];

async function whoAmI(_given: object, command: Command): Promise<void> {
  const { connection, flags } = connect(command);
  const self = await askWho(connection);
  const limits = await ownLimits(connection, self);
  const gateway = connection.endpoint;
  if (flags.json) {
    printJson({ gateway, ...self, limits });
    return;
  }
  const heading = ['PRINCIPAL', 'ROLE', 'GROUPS', 'KEY', 'EVIDENCE', 'SCOPE', 'EXPIRES', 'GATEWAY'];
  const { tenant, principal, role, groups, accessKeyId, evidence, delegation } = self;
  const row = [
    ...[`${tenant}/${principal}`, role, groups.join(','), accessKeyId ?? '-', evidence],
    ...[delegation?.scope ?? '', delegation?.expiresAt ?? '', gateway],
  ];
  printTable(false, { json: null, heading, rows: [row] });
  print(`may: ${mayOf(self)}`);
  for (const line of limitLines(limits)) print(line);
}

/** null: the credential does not let them be seen. */
async function ownLimits(connection: Connection, self: Self): Promise<Limits | null> {
  const path = ['limits', `principal:${self.tenant}/${self.principal}`];
  try {
    return (await callApi(connection, { method: 'GET', path })).json as Limits;
  } catch (error) {
    if (error instanceof ApiRefusal && error.status < 500) return null;
    throw error;
  }
}

const rightsOf: Readonly<Record<string, string>> = {
  operator: 'all in its own tenant, and administer every tenant',
  admin: 'all in its tenant, and administer it',
  auditor: 'see records, usage and limits of its tenant, and none of its data',
  member: 'all in its own buckets, and what it is granted elsewhere',
};

function mayOf({ role, mayCreateBuckets, delegation }: Self): string {
  const ownRights = rightsOf[role] ?? role;
  const made = role !== 'member' ? '' : `; it may${mayCreateBuckets ? '' : ' not'} create buckets`;
  const { hasPolicies = false, scope = null } = delegation ?? {};
  const within = [scope === null ? '' : 'its scope', hasPolicies ? 'its session policies' : ''];
  const narrowed = within.filter((one) => one !== '').join(' and ');
  return `${ownRights}${made}${narrowed === '' ? '' : `; of that, what is left by ${narrowed}`}`;
}

function limitLines(limits: Limits | null): string[] {
  if (limits === null) return ['limits: not shown to this credential'];
  if (limits.limits === null) return ['limits: none of its own'];
  const caps = limits.caps.map(({ meter, window, limit, left, resetAt }) => {
    const [most, rest] = [limit, left].map((amount) => showAmount(meter, amount, limit));
    const reset = resetAt === null ? '' : `, until ${resetAt}`;
    return `limit: ${meter} ${window} ${most}, ${rest} left${reset}`;
  });
  const rates = showRates(limits.limits).map((rate) => `limit: ${rate} a second`);
  return [...caps, ...rates];
}
