// Loaded into a gateway by `--import`: notes in LOOP_DELAY_FILE, each tenth of a second, the time,
// and for how long its main thread was at work at most without anybody else having a turn,
// milliseconds of its processor's time: what else the machine does is not counted. Needs Node 24.
import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const usedMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let [lastMs, longestMs] = [usedMs(), 0];
  setInterval(() => {
    const now = usedMs();
    longestMs = Math.max(longestMs, now - lastMs);
    lastMs = now;
  }, 1).unref();
  setInterval(() => {
    appendFileSync(process.env.LOOP_DELAY_FILE, `${Date.now()} ${longestMs.toFixed(1)}\n`);
    longestMs = 0;
  }, 100).unref();
}
