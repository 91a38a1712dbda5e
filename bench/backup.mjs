// What backups cost those who are served meanwhile: PUTs of 4 KiB over 16 connections to a gateway
// whose database has about a gigabyte, in turns without a backup, with one backup after another,
// and while what is changed is shipped each second.
import { execFile, fork } from 'node:child_process';
import { join, resolve } from 'node:path';
import { makeBucket } from './control.mjs';
import { number, table } from './markdown.mjs';
import { startGateway } from './servers.mjs';
import { bucket, sizeBytes, withLoadTool } from './short-turns.mjs';
import { median } from './statistics.mjs';

const main = resolve(import.meta.dirname, '../app/main.js');
/** They are kept in the database. */
const filledBytes = 60 * 1024;
const connections = 16;
/** What p99 may be with a backup, divided by that without. */
const goal = 1.5;

/** @param {{dir: string, effort: {backup: object}, say: (line: string) => void}} options */
export function benchBackup({ dir, effort: { backup: effort }, say }) {
  return withLoadTool(async (tool) => {
    const { target } = await startGateway({ dir });
    await makeBucket(target, bucket);
    const keyCount = Math.ceil(effort.databaseBytes / filledBytes);
    const fill = { target, bucket, keyPrefix: 'filled', keyCount, sizeBytes: filledBytes };
    const filled = await tool.run({ ...fill, kind: 'fill', connections: 8 });
    if (filled.errors > 0) throw new Error(filled.firstError);
    say(`backup: ${keyCount} objects are in the database`);
    const backups = new Backups(join(dir, 'bursar'), join(dir, 'place'));
    const shipping = new Shipping(join(dir, 'bursar'), join(dir, 'place'));
    const none = { start: () => {}, stop: () => {} };
    const beside = { without: none, with: backups, shipping };
    const turns = { without: [], with: [], shipping: [] };
    for (let round = 0; round <= effort.rounds; round++) {
      const names = Object.keys(turns);
      for (const name of round % 2 === 0 ? names : names.reverse()) {
        beside[name].start();
        const plan = { target, bucket, kind: 'put', keyCount: 2000, sizeBytes, connections };
        const keyPrefix = `${name}-${round}`;
        const timed = { seconds: effort.seconds, warmupSeconds: 1, seed: round };
        const load = await tool.run({ ...plan, ...timed, keyPrefix });
        await beside[name].stop();
        if (load.errors > 0) throw new Error(load.firstError);
        const { perSecond, p50Ms, p99Ms } = load;
        // The first round warms up, and makes the first backup, which is a whole one.
        if (round > 0) turns[name].push({ perSecond, p50Ms, p99Ms });
        say(`backup, ${name}: ${Math.round(perSecond)}/s, p99 ${number(p99Ms)} ms`);
      }
    }
    return { ...effort, turns, made: backups.made };
  });
}

export function describeBackup({ databaseBytes, turns, made }) {
  const row = (name) => [
    name,
    ...['perSecond', 'p50Ms', 'p99Ms'].map((of) => number(median(turns[name].map((t) => t[of])))),
  ];
  const p99 = (name) => median(turns[name].map((turn) => turn.p99Ms));
  const ratio = (name) => number(p99(name) / p99('without'));
  return [
    `PUTs of 4 KiB over ${connections} connections to a gateway with a database of ` +
      `${Math.round(databaseBytes / 1e6)} MB,`,
    `medians of ${turns.with.length} turns each, without a backup, with one after another ` +
      `(${made} were made), and while`,
    'changes are shipped each second to a folder.',
    `p99 with backups is ${ratio('with')} times that without, with shipping ` +
      `${ratio('shipping')} times; the goal is`,
    `at most ${goal}.`,
    '',
    ...table({
      head: ['', 'requests/s', 'p50 ms', 'p99 ms'],
      rows: [row('without'), row('with'), row('shipping')],
    }),
  ];
}

class Backups {
  made = 0;
  #args;
  #isOver = true;
  #running = Promise.resolve();

  constructor(data, place) {
    this.#args = [main, 'backup', 'create', place, '--data', data, '--keep', '2'];
  }

  start() {
    this.#isOver = false;
    this.#running = this.#run();
  }

  /** When the one that is being made is finished. */
  async stop() {
    this.#isOver = true;
    await this.#running;
  }

  async #run() {
    while (!this.#isOver) {
      await new Promise((done, fail) => {
        execFile(process.execPath, this.#args, (error) => (error ? fail(error) : done()));
      });
      this.made++;
    }
  }
}

/** As the gateway keeps it, but begun and ended for each turn. */
class Shipping {
  #job;
  #child = null;
  #ended = Promise.resolve();

  constructor(data, place) {
    this.#job = { settings: { data }, place, placeFlags: {}, everyMs: 1000 };
  }

  start() {
    const child = fork(main, ['ship-supervised'], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child = child;
    this.#ended = new Promise((done) => child.once('close', done));
    child.on('message', ({ kind, problem }) => {
      if (kind === 'ready') child.send({ kind: 'job', job: this.#job });
      if (problem) throw new Error(problem);
    });
  }

  async stop() {
    if (this.#child.connected) this.#child.send({ kind: 'stop' });
    await this.#ended;
  }
}
