// Loaded into each thread of a gateway: answers say which thread gave them, and a file that a test
// writes blocks one thread until it is removed, for ten seconds at most.
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { isMainThread, workerData } from 'node:worker_threads';

const thread = isMainThread ? 0 : workerData?.thread;
if (thread !== undefined) {
  const { writeHead } = ServerResponse.prototype;
  ServerResponse.prototype.writeHead = function (...given) {
    // What is passed on has it of who answers.
    if (!this.hasHeader('test-thread')) this.setHeader('test-thread', String(thread));
    return writeHead.apply(this, given);
  };
  const file = join(process.env.TOLD_THREADS, String(thread));
  const cell = new Int32Array(new SharedArrayBuffer(4));
  setInterval(() => {
    if (!existsSync(file)) return;
    writeFileSync(`${file}.blocked`, '');
    for (let i = 0; i < 200 && existsSync(file); i++) Atomics.wait(cell, 0, 0, 50);
    rmSync(`${file}.blocked`);
  }, 10).unref();
}
