// Somebody else, beside who keeps the gateway busy: a small GET every few milliseconds, and a small
// PUT every few more. A process of its own, so that nothing but the gateway and the machine delays
// it. Is sent a plan at first, then `true` to begin anew; and answers `false` with what it waited,
// in ms.
import { setTimeout as sleep } from 'node:timers/promises';
import { Asker } from './asking.mjs';

const getEveryMs = 4;
const putEveryMs = 20;

let waits = { get: [], put: [] };
let isOn = false;
/** What is still waited for. */
const underWay = new Set();

/** @param {'get' | 'put'} kind */
async function probe(asker, kind, message, everyMs) {
  for (;;) {
    await sleep(everyMs);
    if (!isOn) continue;
    const { [kind]: into } = waits;
    const sinceMs = performance.now();
    const asked = asker.demand(message);
    underWay.add(asked);
    await asked;
    underWay.delete(asked);
    into.push(performance.now() - sinceMs);
  }
}

process.once('message', ({ target, bucket }) => {
  const path = `/${bucket}/probed`;
  const get = { method: 'GET', path };
  const put = { method: 'PUT', path: `/${bucket}/written`, body: 'x'.repeat(100) };
  const fail = (error) => {
    process.stderr.write(`prober: ${error.stack}\n`);
    process.exit(1);
  };
  probe(new Asker(target, 1), 'get', get, getEveryMs).catch(fail);
  probe(new Asker(target, 1), 'put', put, putEveryMs).catch(fail);
  process.on('message', async (begins) => {
    isOn = begins;
    if (begins) waits = { get: [], put: [] };
    else {
      await Promise.all(underWay);
      setImmediate(() => process.send(waits));
    }
  });
  process.send('ready');
});
process.on('disconnect', () => process.exit());
