// Preloaded into what scripts/dev.mjs starts: when the parent is gone, however it ended, so is this
// process, as if it had been told to stop. Worker threads load it too, and have no parent of their
// own.
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
