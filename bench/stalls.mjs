// How long the main thread is kept from others by operations at the largest inputs that they take:
// what somebody else waits beside eight connections of each, and what the gateway itself tells.
import { count, number, table } from './markdown.mjs';
import { Asker } from './stalls/asking.mjs';
import { connections, measureOne, startProber } from './stalls/measure.mjs';
import { largestInputs } from './stalls/operations.mjs';
import { startFilled } from './stalls/state.mjs';
import { quantile } from './statistics.mjs';

/** Milliseconds; `bursar_event_loop_stall_seconds` tells of what is longer. */
const goalMs = 50;

/** @param {{dir: string, effort: {stalls: object}, say: (line: string) => void}} options */
export async function benchStalls({ dir, effort: { stalls: effort }, say }) {
  const { server, begun } = await startFilled(dir, effort);
  say('stalls: the largest state is stored');
  const { target } = server;
  const asker = new Asker(target, 1);
  const prober = await startProber(asker, target);
  const { seconds } = effort;
  const given = { target, prober, seconds };
  const measured = [];
  const measure = async (largest) => {
    const one = await measureOne(largest, given);
    measured.push(one);
    const stalls = one.stalls.map(stallCell).join('; ') || 'none';
    const own = one.stalls.map(ownCell).join('; ') || 'none';
    const got = number(Math.max(...one.waits.get));
    say(
      `${one.title}: ${one.done} in ${number(one.tookMs)} ms, GET at most ${got} ms, ` +
        `stalls: ${stalls}, their own: ${own}`,
    );
  };
  try {
    await measure({ title: 'nothing' });
    for (const largest of await largestInputs({ asker, target, begun })) await measure(largest);
  } finally {
    prober.end();
    asker.close();
  }
  return { seconds, measured };
}

export function describeStalls({ seconds, measured }) {
  const rows = measured.map(({ title, done, tookMs, waits, stalls: [longest] }) => [
    title,
    number((1000 * done) / tookMs),
    ...[waits.get, waits.put].flatMap((waited) =>
      waited.length > 0 ? [quantile(waited, 0.99), Math.max(...waited)].map(number) : ['–', '–'],
    ),
    longest ? stallCell(longest) : '–',
    longest ? ownCell(longest) : '–',
  ]);
  return [
    `Each operation at the largest input that it takes, for ${seconds} s over ${connections} ` +
      'connections (completions',
    'once for each upload). Beside it another principal sends a small GET every 4 ms and a ' +
      'small PUT every',
    '20 ms; of these, what 99% waited at most, and the longest, in milliseconds. A wait is ' +
      'the turns of all',
    'who came before; a stall is time in which nobody has a turn, as the gateway tells it ' +
      'where it is',
    `${goalMs} ms or more (\`bursar_event_loop_stall_seconds\`). Its own is what is left of it`,
    'without the time in which the thread was ready and others had the processors of this machine',
    '(`bursar_event_loop_stall_own_seconds`); computed is the time in which it had one. The goal',
    `is that none has ${goalMs} ms of its own.`,
    '',
    ...table({
      head: ['', 'requests/s', 'GET p99', 'longest', 'PUT p99', 'longest', 'stalls', 'their own'],
      rows,
    }),
  ];
}

const stallCell = ({ operation, count: some, meanMs, upToMs }) =>
  `${operation}: ${count(some)}, ${number(meanMs)} ms in the mean, at most ${upToMs}`;

function ownCell({ own }) {
  if (!own) return 'not known';
  const { longCount, meanMs, upToMs, processorMs } = own;
  const mean = `${number(meanMs)} ms in the mean, at most ${upToMs}`;
  return `${count(longCount)} of ${goalMs} ms or more; ${mean}, computed ${number(processorMs)}`;
}
