// Appends samples to a log, one after the other, in small segments: node sample-run.mjs FOLDER
// COUNT. Prints the times of those that it was told to be durable.
import { SampleLog } from '#bursar/instruments/sample-log.js';

const [folder, count] = process.argv.slice(2);
const sample = { series: 'sizes', kind: 'read', target: 'gateway', sizeBytes: 1, durationMs: 1 };
const told = [];
const log = await SampleLog.open(folder, { name: 'probe', segmentBytesMax: 400, segmentsMax: 100 });
for (let timeMs = 0; timeMs < Number(count); timeMs++) {
  const rest = { timeMs, firstByteMs: 1, retries: 0, error: null };
  await log.append({ ...sample, ...rest }).then(
    () => told.push(timeMs),
    () => {},
  );
}
await log.close();
process.stdout.write(JSON.stringify(told));
