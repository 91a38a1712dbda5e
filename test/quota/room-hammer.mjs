// A thread to which bodies come as fast as can be, of a tenant of its own; see disk-room.test.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { RemoteRooms } from '#bursar/quota/remote-rooms.js';

const { tenant, bodies, bytes, pieceBytes, cameBytes, gate, threads } = workerData;
const waiting = [];
const rooms = new RemoteRooms({
  ask: (question) =>
    new Promise((resolve) => {
      waiting.push(resolve);
      parentPort.postMessage({ question });
    }),
  close: (closed) => parentPort.postMessage({ closed }),
  cameBytes,
  own: { open: () => null },
  smallBytesMax: 0,
});
// Answers come in the order of the questions.
parentPort.on('message', (outcome) => waiting.shift()(outcome));

const names = Array.from({ length: bodies }, (_, i) => `${tenant}/${i}`);
const opening = names.map((principal) => rooms.open({ tenant, principal, bytes }));
const opened = (await Promise.allSettled(opening)).flatMap(({ value }) => value ?? []);

// Bodies begin to come when all threads have theirs.
const word = new Int32Array(gate);
Atomics.add(word, 0, 1);
while (Atomics.load(word, 0) < threads) await new Promise(setImmediate);

let stored = 0;
async function send(room) {
  for (let sent = 0; sent < bytes; sent += pieceBytes) {
    await room.arrive(pieceBytes);
    stored += pieceBytes;
  }
}
const sent = await Promise.allSettled(opened.map(send));
for (const { reason } of sent) if (reason && reason.status !== 503) throw reason;
parentPort.postMessage({ stored });
parentPort.unref();
