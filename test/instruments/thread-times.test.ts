// The system's account of this thread: what it computes is time on a processor; what other threads
// do and what it waits for is not.
import { pbkdf2 } from 'node:crypto';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ThreadTimes } from '#bursar/instruments/thread-times.js';

describe.runIf(existsSync('/proc/thread-self/schedstat'))('the times of a thread', () => {
  it('grow by what it computes, however long that takes', () => {
    const times = new ThreadTimes();
    expect(times.areKnown).toBe(true);
    const { processorMs, queuedMs } = times;
    while (times.processorMs - processorMs < 50) times.read();
    expect(times.queuedMs).toBeGreaterThanOrEqual(queuedMs);
    times.close();
  });

  it('do not grow by what another thread computes', async () => {
    const times = new ThreadTimes();
    const { processorMs } = times;
    const before = process.cpuUsage();
    await promisify(pbkdf2)('password', 'salt', 1_000_000, 32, 'sha256');
    times.read();
    const { user, system } = process.cpuUsage(before);
    expect(times.processorMs - processorMs).toBeLessThan((user + system) / 1000 / 2);
    times.close();
  });
});
