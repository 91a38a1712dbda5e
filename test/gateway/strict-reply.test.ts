// What leaves of an answer before its record is durable, where reads are recorded strictly: all but
// the last chunk, and of one that cannot be recorded nothing more.
import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import type { ErrorCode } from '#bursar/core/errors.js';
import type { Reply } from '#bursar/gateway/http/reply.js';
import { sendReply } from '#bursar/gateway/http/reply.js';
import type { Reserved } from '#bursar/gateway/s3/stages.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';

const chunks = ['first', 'second', 'last'];

/** What happens, in its order. `failed`: why the record cannot be written. */
function rig({ failed = null as ErrorCode | null, isStrictRead = true, method = 'GET' } = {}) {
  const events: string[] = [];
  const response = Object.assign(new EventEmitter(), {
    destroyed: false,
    writeHead: (status: number) => void events.push(`status ${status}`),
    write: (chunk: Buffer, done: () => void) => {
      events.push(`sent ${chunk}`);
      done();
    },
    end: (chunk?: Buffer) => void events.push(chunk ? `sent ${chunk}, end` : 'end'),
  });
  const context = {
    request: { id: 'R', method },
    response,
    exchange: { bytesOut: 0, writeHead: response.writeHead },
    clock: new StageClock(),
    index: null as number | null,
    shaped: null,
    isStrictRead,
    tellLimits: () => {},
    asked: { reconsiderDownload: () => null },
    recordNow: async (status: number) => {
      events.push(`recorded ${status}, ${context.exchange.bytesOut} bytes`);
      if (failed === null) context.index = 7;
      return failed;
    },
  };
  const send = (reply: Partial<Reply>) =>
    sendReply(context as unknown as Reserved, { status: 200, headers: {}, body: null, ...reply });
  return { events, context, send };
}

function streamed(lengthBytes = chunks.join('').length): Partial<Reply> {
  const body = (async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk);
  })();
  return { headers: { 'content-length': String(lengthBytes) }, body };
}

test('the last chunk of a stream waits for the record', async () => {
  const { events, send } = rig();
  await send(streamed());
  const head = ['status 200', 'sent first', 'sent second'];
  expect(events).toEqual([...head, 'recorded 200, 15 bytes', 'sent last', 'end']);
});

test('the last chunk of a stream that cannot be recorded is not sent', async () => {
  const { events, context, send } = rig({ failed: 'ServiceUnavailable' });
  await expect(send(streamed())).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  expect(events.at(-1)).toContain('recorded');
  expect(events).not.toContain('sent last');
  expect(context.exchange.bytesOut).toBe('firstsecond'.length);
});

test.each<[string, Partial<Reply>, string, string]>([
  ['a buffer', { body: Buffer.from('whole') }, 'recorded 200, 5 bytes', 'sent whole, end'],
  ['a document', { body: 'whole' }, 'recorded 200, 5 bytes', 'sent whole, end'],
  ['no body', { status: 304 }, 'recorded 304, 0 bytes', 'end'],
])('all of an answer waits for the record, with %s', async (_what, reply, recorded, sent) => {
  const { events, send } = rig();
  await send(reply);
  expect(events).toEqual([recorded, `status ${reply.status ?? 200}`, sent]);
  const failing = rig({ failed: 'ServiceUnavailable' });
  await expect(failing.send(reply)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  expect(failing.events).toEqual([recorded]);
});

test('a HEAD is recorded as having sent nothing', async () => {
  const { events, send } = rig({ method: 'HEAD' });
  await send({ body: 'whole' });
  expect(events).toEqual(['recorded 200, 0 bytes', 'status 200', 'end']);
});

test('elsewhere nothing waits', async () => {
  const { events, send } = rig({ isStrictRead: false });
  await send(streamed());
  expect(events).toEqual(['status 200', ...chunks.map((chunk) => `sent ${chunk}`), 'end']);
});
