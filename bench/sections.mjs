// What the bench measures, in the order of docs/performance.md, and how a run goes through it: a
// section that fails does not lose the others.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { benchBackup, describeBackup } from './backup.mjs';
import { benchDecisions, describeDecisions } from './decisions.mjs';
import { benchEncryption, describeEncryption, goalsOfEncryption } from './encryption.mjs';
import { benchClients, describeClients } from './growth/clients.mjs';
import { benchObjects, describeObjects } from './growth/objects.mjs';
import { benchSnapshotGrowth, describeSnapshotGrowth } from './growth/snapshots.mjs';
import { benchThreads, describeThreads } from './growth/threads.mjs';
import { benchVersions, describeVersions } from './growth/versions.mjs';
import { benchInstruments, describeInstruments } from './instruments.mjs';
import { benchLimits, describeLimits, goalsOfLimits } from './limits.mjs';
import { benchLog, describeLog } from './log.mjs';
import { describeMachineLimits, measureMachineLimits } from './machine.mjs';
import { benchPath } from './peers.mjs';
import { describePath, goalsOfPath } from './peers-report.mjs';
import { stopAll } from './processes.mjs';
import { benchRelease, describeRelease, goalsOfRelease } from './release.mjs';
import { benchSnapshots, describeSnapshots, goalsOfSnapshots } from './snapshots.mjs';
import { benchStalls, describeStalls } from './stalls.mjs';
import { benchStandby, describeStandby } from './standby.mjs';
import { benchTokens, describeTokens, goalsOfTokens } from './tokens.mjs';

/**
 * How much is measured. `seconds`, `rounds`, `warmupSeconds`, `listKeys`: beside peers; `pairs`:
 * short turns of each; `growthRounds` the same, where states are compared; `instrumentPairs`:
 * periods with and without instruments; `snapshots`: see `growth/snapshots.mjs`; `stalls`: see
 * `stalls/state.mjs`; `backup`, `standby`: see their files; the rest is the largest state.
 */
export const efforts = {
  whole: {
    ...{ seconds: 2, rounds: 5, warmupSeconds: 0.7, listKeys: 30_000 },
    ...{ pairs: 12, instrumentPairs: 120, growthRounds: 5 },
    ...{ objects: 1_000_000, versions: 100_000, grants: 1_000_000 },
    snapshots: { keys: 1_000_000, most: 10_000, seconds: 15 },
    stalls: { parts: 10_000, uploads: 8, entries: 1000, seconds: 2 },
    backup: { databaseBytes: 1e9, rounds: 3, seconds: 20 },
    standby: { keyCount: 20_000, rounds: 3, seconds: 5 },
  },
  quick: {
    ...{ seconds: 0.3, rounds: 1, warmupSeconds: 0.2, listKeys: 2000 },
    ...{ pairs: 1, instrumentPairs: 1, growthRounds: 1 },
    ...{ objects: 10_000, versions: 100, grants: 10_000 },
    snapshots: { keys: 10_000, most: 100, seconds: 1 },
    stalls: { parts: 500, uploads: 1, entries: 50, seconds: 0.1 },
    backup: { databaseBytes: 2e7, rounds: 1, seconds: 1 },
    standby: { keyCount: 200, rounds: 1, seconds: 1 },
  },
};

/**
 * @typedef {object} Section
 * @property {string} name of `--path`
 * @property {string} title
 * @property {boolean} [wantsOther] is measured only where another build is named
 * @property {{whole: number, quick: number}} seconds that it takes, about, on two cores
 * @property {(options: object) => Promise<object>} measure
 * @property {(measured: object) => string[]} describe lines of Markdown
 * @property {(measured: object) => import('./summary.mjs').Goal[]} [goals] what is told first
 */

/** @type {Section[]} */
export const sections = [
  {
    ...{ name: 'machine', title: 'The limits of the machine', seconds: { whole: 10, quick: 10 } },
    ...{ measure: measureMachineLimits, describe: describeMachineLimits },
  },
  {
    ...{ name: 'embedded', title: 'On a local disk', seconds: { whole: 430, quick: 35 } },
    ...{ measure: (options) => benchPath('embedded', options), describe: describePath },
    goals: goalsOfPath,
  },
  {
    ...{ name: 's3', title: 'With the bytes in S3', seconds: { whole: 390, quick: 35 } },
    ...{ measure: (options) => benchPath('s3', options), describe: describePath },
    goals: goalsOfPath,
  },
  {
    ...{ name: 'instruments', title: 'What the instruments cost' },
    ...{ seconds: { whole: 250, quick: 30 } },
    ...{ measure: benchInstruments, describe: describeInstruments },
  },
  {
    ...{ name: 'log', title: 'What the audit log costs', seconds: { whole: 55, quick: 10 } },
    ...{ measure: benchLog, describe: describeLog },
  },
  {
    ...{ name: 'limits', title: 'What limits cost', seconds: { whole: 55, quick: 10 } },
    ...{ measure: benchLimits, describe: describeLimits, goals: goalsOfLimits },
  },
  {
    ...{ name: 'encryption', title: 'What encryption costs', seconds: { whole: 120, quick: 15 } },
    ...{ measure: benchEncryption, describe: describeEncryption, goals: goalsOfEncryption },
  },
  {
    ...{ name: 'tokens', title: 'What credentials cost', seconds: { whole: 30, quick: 6 } },
    ...{ measure: benchTokens, describe: describeTokens, goals: goalsOfTokens },
  },
  {
    ...{ name: 'decisions', title: 'How cost grows with grants', seconds: { whole: 35, quick: 3 } },
    ...{ measure: async (options) => benchDecisions(options), describe: describeDecisions },
  },
  {
    ...{ name: 'objects', title: 'How cost grows with objects and records' },
    ...{ seconds: { whole: 180, quick: 12 }, measure: benchObjects, describe: describeObjects },
  },
  {
    ...{ name: 'versions', title: 'How cost grows with versions' },
    ...{ seconds: { whole: 40, quick: 8 }, measure: benchVersions, describe: describeVersions },
  },
  {
    ...{ name: 'snapshots', title: 'What snapshots cost', seconds: { whole: 75, quick: 10 } },
    ...{ measure: benchSnapshots, describe: describeSnapshots, goals: goalsOfSnapshots },
  },
  {
    ...{ name: 'snapshot-growth', title: 'How cost grows with snapshots' },
    ...{ seconds: { whole: 400, quick: 15 } },
    ...{ measure: benchSnapshotGrowth, describe: describeSnapshotGrowth },
  },
  {
    ...{ name: 'clients', title: 'How cost grows with clients' },
    ...{ seconds: { whole: 45, quick: 8 }, measure: benchClients, describe: describeClients },
  },
  {
    ...{ name: 'threads', title: 'How throughput grows with threads' },
    ...{ seconds: { whole: 40, quick: 12 }, measure: benchThreads, describe: describeThreads },
  },
  {
    ...{ name: 'backup', title: 'What a backup costs those who are served' },
    ...{ seconds: { whole: 450, quick: 30 }, measure: benchBackup, describe: describeBackup },
  },
  {
    ...{ name: 'standby', title: 'When the machine of a gateway dies' },
    ...{ seconds: { whole: 240, quick: 20 }, measure: benchStandby, describe: describeStandby },
  },
  {
    ...{ name: 'stalls', title: 'What the largest requests keep from others' },
    ...{ seconds: { whole: 120, quick: 15 }, measure: benchStalls, describe: describeStalls },
  },
  {
    ...{ name: 'release', title: 'Beside another build', wantsOther: true },
    ...{ seconds: { whole: 150, quick: 10 }, measure: benchRelease, describe: describeRelease },
    goals: goalsOfRelease,
  },
];

/**
 * Measures the sections one after another, each on an empty folder, and says when they will be
 * done.
 * @param {Section[]} chosen
 * @param {{dir: string, isQuick: boolean, say: (line: string) => void}} options and those of
 *   sections
 * @returns {Promise<import('./report.mjs').Outcome[]>}
 */
export async function runSections(chosen, { dir, isQuick, say, ...options }) {
  const outcomes = [];
  for (const [i, section] of chosen.entries()) {
    const left = chosen.slice(i).map(({ seconds }) => seconds[isQuick ? 'quick' : 'whole']);
    const untils = [left[0], left.reduce((sum, one) => sum + one)].map(timeIn);
    say(
      `${section.name}, ${i + 1} of ${chosen.length}, until ${untils[0]}; all until ${untils[1]}`,
    );
    const folder = join(dir, section.name);
    mkdirSync(folder, { recursive: true });
    try {
      outcomes.push({ section, measured: await section.measure({ ...options, dir: folder, say }) });
    } catch (cause) {
      say(`NOT MEASURED: ${section.name}: ${cause.stack}`);
      outcomes.push({ section, failure: cause.message.split('\n', 1)[0] });
    } finally {
      await stopAll();
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return outcomes;
}

/** The time of day in so many seconds. */
function timeIn(seconds) {
  return new Date(Date.now() + seconds * 1000).toTimeString().slice(0, 5);
}
