// `bursar work`: jobs that wait for somebody to do them.
import type { Command } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi, listAll } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { findOwnPlace } from './recipe/own-place.ts';

type Job = Answers['ListWork']['jobs'][number];
type Copy = Answers['ListCopies']['copies'][number];

const columns: Columns<Job | Copy> = {
  heading: ['JOB', 'KIND', 'OBJECT', 'STATE', 'TRIES', 'DUE', 'HOLDER', 'PROBLEM'],
  row: (one) => {
    const { kind, state, tries, dueAt } = one;
    const [id, what, holder, problem] =
      'extent' in one
        ? [one.extent, `a copy in ${one.store}`, null, null]
        : [String(one.id), `s3://${one.bucket}/${one.key}`, one.holder, one.problem];
    return [id, kind, what, state, String(tries), dueAt, holder ?? '', problem ?? ''];
  },
};

export function addWorkCommands(program: Command): void {
  const work = program
    .command('work')
    .description('jobs that make lost objects again, and copies that are to be made');
  work
    .command('list')
    .argument('[place]', 's3://BUCKET or s3://BUCKET/PREFIX; nothing: all buckets')
    .description('list jobs of objects that you may read, and as an admin copies that wait')
    .action(async (place: string | undefined, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { path, query } = await findOwnPlace(connection, place);
      const jobs = await listAll<Job>(connection, [...path, 'work'], 'jobs', query);
      const copies = place === undefined ? await listCopies(connection, path) : [];
      const all = [...jobs, ...copies];
      printEntries(flags.json, columns, all, all);
    });
  work
    .command('retry')
    .argument('<job>', 'its number, or an extent; or s3://BUCKET[/PREFIX]: all that are dead there')
    .description('have dead jobs, or copies that wait, tried again')
    .action(async (given: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const isPlace = given.startsWith('s3://');
      const { path, query } = await findOwnPlace(connection, isPlace ? given : undefined);
      if (/^[0-9a-f]{32}$/.test(given)) {
        const body = { retry: true };
        const call = { method: 'PUT', path: [...path, 'copies', given], body } as const;
        const { copies } = (await callApi(connection, call)).json as Answers['RetryCopies'];
        if (flags.json) printJson(copies);
        else for (const one of copies) print(`the copy in ${one.store} is ${one.state}`);
        return;
      }
      const retry = async (id: string) => {
        const call = { method: 'PUT', path: [...path, 'work', id], body: { retry: true } } as const;
        return (await callApi(connection, call)).json as Job;
      };
      const ids = isPlace ? await listDead(connection, path, query) : [given];
      const jobs: Job[] = [];
      for (const id of ids) {
        try {
          jobs.push(await retry(id));
        } catch (error) {
          // It has ended since it was listed, or somebody else has it tried again.
          const hasPassed = error instanceof ApiRefusal && [404, 412].includes(error.status);
          if (!isPlace || !hasPassed) throw error;
        }
      }
      if (flags.json) printJson(isPlace ? jobs : jobs[0]);
      else if (isPlace && jobs.length === 0) print(`no job is dead in ${given}`);
      else for (const job of jobs) print(`job ${job.id} is ${job.state}`);
    });
}

/** None where they are not shown: to members, to narrow tokens, and by older gateways. */
async function listCopies(connection: Connection, path: readonly string[]): Promise<Copy[]> {
  try {
    return await listAll<Copy>(connection, [...path, 'copies'], 'copies');
  } catch (error) {
    if (error instanceof ApiRefusal && [403, 404].includes(error.status)) return [];
    throw error;
  }
}

async function listDead(
  connection: Connection,
  path: readonly string[],
  query: Record<string, string | undefined>,
): Promise<string[]> {
  const jobs = await listAll<Job>(connection, [...path, 'work'], 'jobs', query);
  return jobs.filter(({ state }) => state === 'dead').map(({ id }) => String(id));
}
