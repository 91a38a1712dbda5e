// `bursar why`: what became of one request, and why.
import { type Command, InvalidArgumentError } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, printPairs } from './output.ts';
import { placeFor } from './record-place.ts';
import { time, timeForms } from './times.ts';

type Answer = Answers['GetRequest'];
type Request = NonNullable<Answer['request']>;

export function addWhyCommand(program: Command): void {
  program
    .command('why')
    .argument('<request-id>', 'the x-amz-request-id of its answer', parseRequestId)
    .description('say what became of a request, why it was refused, and where its time went')
    .option('--near <time>', `about when it was: ${timeForms} (default: in the last hour)`, time)
    .action(async (id: string, { near }: { near?: string }, command: Command) => {
      const { connection, flags } = connect(command);
      const call = { method: 'GET', path: ['requests', id], query: { near } } as const;
      const answer = (await callApi(connection, call)).json as Answer;
      if (flags.json) printJson(answer);
      else show(answer);
    });
}

function parseRequestId(value: string): string {
  const id = value.toUpperCase();
  if (/^[0-9A-F]{16}$/.test(id)) return id;
  throw new InvalidArgumentError('Must be 16 hexadecimal digits, as x-amz-request-id has them.');
}

function show({ request, records, searched }: Answer): void {
  if (request) printPairs(12, pairsOf(request));
  else {
    print(
      'How it went is not told: the gateway forgets it after a while, and tells it to who asked,',
    );
    print(
      'to the admins and auditors of their tenant, and to operators. This is what was recorded:',
    );
  }
  for (const record of records as unknown as Recorded[]) printPairs(12, pairsOfRecord(record));
  if (records.length > 0) return;
  const { from, to, whole } = searched;
  const where = `from ${from} to ${to}`;
  const much = whole ? '' : ', of which not all were looked at';
  print(`No record of its own was found among those ${where}${much}: a refusal before it is`);
  print('known who asks has none, and reads and refusals may be one record with others.');
}

type Pair = readonly [string, string];

function pairsOf(request: Request): Pair[] {
  const { tenant, principal, error, message, status, store, bucket, durationMs } = request;
  const spent = Object.entries(request.stagesMs).filter(([, spentMs]) => Number(spentMs) > 0);
  const pairs: (readonly [string, string | null])[] = [
    ['time', request.time],
    ['who', principal === null ? 'not known: it was refused before' : `${tenant}/${principal}`],
    ['from', request.source],
    ['what', `${request.operation ?? request.method} (${request.way})`],
    ['bucket', bucket],
    ['store', store],
    ['answer', status === 0 ? 'none was sent' : String(status)],
    ['error', error],
    ['because', message],
    ['rule', request.rule],
    ['more', error === 'AccessDenied' && tenant !== null ? `${explained} ${tenant}` : null],
    ['bytes', `${request.bytesIn} in, ${request.bytesOut} out`],
    ['took', `${durationMs} ms, ${request.firstByteMs} ms to the first byte`],
    ['stages', spent.map(([stage, spentMs]) => `${stage} ${spentMs} ms`).join(', ')],
  ];
  return pairs.filter((pair): pair is Pair => pair[1] !== null && pair[1] !== '');
}

const explained =
  'which rule decides, "bursar explain" tells admins of the tenant that has the bucket, or of';

interface Recorded {
  index: number;
  action: string;
  tenant: string;
  principal: string;
  bucketTenant?: string;
  bucket?: string;
  key?: string;
  target?: string;
  status: number;
  error?: string;
  cost?: string;
  accessKeyId?: string;
  tokens?: string[];
}

function pairsOfRecord(record: Recorded): Pair[] {
  const { index, action, tenant, principal, target, status, error } = record;
  const outcome = error === undefined ? String(status) : `${status} ${error}`;
  const { accessKeyId, tokens = [], cost } = record;
  const pairs: (readonly [string, string | undefined])[] = [
    ['record', `${index}: ${tenant}/${principal}, ${action}, ${outcome}`],
    ['about', target ?? (placeFor(tenant, record) || undefined)],
    ['by key', accessKeyId],
    ['by tokens', tokens.length > 0 ? tokens.join(' > ') : undefined],
    ['charged', cost === undefined ? undefined : `$${cost}`],
  ];
  return pairs.filter((pair): pair is Pair => pair[1] !== undefined);
}
