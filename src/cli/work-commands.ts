// `bursar work`: jobs that wait for somebody to do them.
import type { Command } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi, listAll } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { findOwnPlace } from './recipe/own-place.ts';

type Job = Answers['ListWork']['jobs'][number];

const columns: Columns<Job> = {
  heading: ['JOB', 'KIND', 'OBJECT', 'STATE', 'TRIES', 'DUE', 'HOLDER', 'PROBLEM'],
  row: ({ id, kind, bucket, key, state, tries, dueAt, holder, problem }) => [
    ...[String(id), kind, `s3://${bucket}/${key}`, state, String(tries), dueAt],
    ...[holder ?? '', problem ?? ''],
  ],
};

export function addWorkCommands(program: Command): void {
  const work = program
    .command('work')
    .description('jobs that make lost objects again by their recipes');
  work
    .command('list')
    .argument('[place]', 's3://BUCKET or s3://BUCKET/PREFIX; nothing: all buckets')
    .description('list the jobs of objects that you may read, those that are dead as well')
    .action(async (place: string | undefined, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { path, query } = await findOwnPlace(connection, place);
      const jobs = await listAll<Job>(connection, [...path, 'work'], 'jobs', query);
      printEntries(flags.json, columns, jobs, jobs);
    });
  work
    .command('retry')
    .argument('<job>', 'its number; or s3://BUCKET or s3://BUCKET/PREFIX: all that are dead there')
    .description('have dead jobs tried again')
    .action(async (given: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const isPlace = given.startsWith('s3://');
      const { path, query } = await findOwnPlace(connection, isPlace ? given : undefined);
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

async function listDead(
  connection: Connection,
  path: readonly string[],
  query: Record<string, string | undefined>,
): Promise<string[]> {
  const jobs = await listAll<Job>(connection, [...path, 'work'], 'jobs', query);
  return jobs.filter(({ state }) => state === 'dead').map(({ id }) => String(id));
}
