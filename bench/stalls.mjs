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
    const [longest] = one.stalls;
    const stall = longest ? `${longest.operation} up to ${longest.upToMs} ms` : 'none';
    const got = number(Math.max(...one.waits.get));
    say(
      `${one.title}: ${one.done} in ${number(one.tookMs)} ms, GET at most ${got} ms, stalls: ${stall}`,
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
    longest ? `${longest.operation}: ${count(longest.count)}, ${range(longest)}` : '–',
  ]);
  return [
    `Each operation at the largest input that it takes, for ${seconds} s over ${connections} connections (completions`,
    'once for each upload). Beside it another principal sends a small GET every 4 ms and a small PUT every',
    '20 ms; of these, what 99% waited at most, and the longest, in milliseconds. A wait is the turns of all',
    'who came before; a stall is time in which nobody has a turn, as the gateway tells it where it is',
    `${goalMs} ms or more (\`bursar_event_loop_stall_seconds\`). The goal is none.`,
    '',
    ...table({
      head: ['', 'requests/s', 'GET p99', 'longest', 'PUT p99', 'longest', 'stalls'],
      rows,
    }),
  ];
}

const range = ({ meanMs, upToMs }) => `${number(meanMs)} ms in the mean, at most ${upToMs}`;
