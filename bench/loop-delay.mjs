// Loaded into a gateway by `--import`. Each tenth of a second the main thread and the ledger's note
// in LOOP_DELAY_FILE, with the thread's name behind it: the time; for how long the thread was at
// work at most without anybody else having a turn, milliseconds of its processor's time, so that
// what else the machine does is not counted; and the longest that its event loop was late,
// milliseconds by the clock, which counts that, too. Needs Node 24.
import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread, threadName } from 'node:worker_threads';

const name = isMainThread ? 'main' : threadName;
if (name === 'main' || name === 'ledger') {
  const usedMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  let [lastMs, longestMs] = [usedMs(), 0];
  setInterval(() => {
    const now = usedMs();
    longestMs = Math.max(longestMs, now - lastMs);
    lastMs = now;
  }, 1).unref();
  setInterval(() => {
    const lateMs = Math.max(delay.max / 1e6 - 1, 0);
    const line = `${Date.now()} ${longestMs.toFixed(1)} ${lateMs.toFixed(1)}\n`;
    appendFileSync(`${process.env.LOOP_DELAY_FILE}-${name}`, line);
    longestMs = 0;
    delay.reset();
  }, 100).unref();
}
