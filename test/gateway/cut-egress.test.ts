// What a read is charged whose client goes away in its midst: never less than arrived, and never
// more than was asked for. The client's window is small, so that little of a chunk is taken by the
// system.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import {
  as,
  findRecords,
  newName,
  newPrincipal,
  patternOf,
  send,
  signMessage,
  startEmbeddedTarget,
} from '../protocol/target.ts';
import { cryptographyPython, describeWithTool } from '../tooling/tools.ts';

/** Reads so many bytes of the body of an answer, then breaks the connection; tells what it got. */
const client = `
import socket, struct, sys
host, port, wanted, head = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.settimeout(20)
s.connect((host, port))
s.sendall(head.encode())
got = b''
while b'\\r\\n\\r\\n' not in got:
    got += s.recv(512)
top, body = got.split(b'\\r\\n\\r\\n', 1)
count = len(body)
while count < wanted:
    count += len(s.recv(min(1024, wanted - count)))
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
lines = top.split(b'\\r\\n')
print(count, [l.split(b': ')[1].decode() for l in lines if l.startswith(b'x-amz-request-id')][0])
`;

const run = promisify(execFile);
/** Inline, of a chunk and a half, and of many. */
const sizes = [40_000, 400_000, 3_000_000];
const lengths = [1, 1000, 26_000];

describeWithTool(cryptographyPython, 'reads that are broken off', (python) => {
  it(
    'are charged for what has arrived, and for no more than was asked for',
    () => breakOff(python),
    60_000,
  );
});

async function breakOff(python: string): Promise<void> {
  const target = await startEmbeddedTarget();
  try {
    const name = newName('reader');
    const reader = as(target, await newPrincipal(target, { name }));
    await send(reader, { method: 'PUT', path: `/${name}` });
    const { hostname, port } = new URL(target.endpoint);
    const got = new Map<string, { arrived: number; size: number }>();
    for (const size of sizes) {
      const path = `/${name}/${size}`;
      const stored = await send(reader, { method: 'PUT', path, body: patternOf(size) });
      expect(stored.status).toBe(200);
      const reads = lengths
        .filter((length) => length < size)
        .map(async (length) => {
          const { headers } = signMessage(reader, { method: 'GET', path });
          const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}\r\n`);
          const head = `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
          const args = ['-c', client, hostname, port, String(length), head];
          const { stdout } = await run(python, args);
          const [arrived, id = ''] = stdout.trim().split(' ');
          got.set(id, { arrived: Number(arrived), size });
        });
      await Promise.all(reads);
    }
    const records = await readsOf();
    expect(records).toHaveLength(got.size);
    for (const { requestId, bytesOut } of records) {
      const { arrived = Number.NaN, size = 0 } = got.get(requestId) ?? {};
      expect(bytesOut, `${arrived} of ${size} arrived`).toBeGreaterThanOrEqual(arrived);
      expect(bytesOut).toBeLessThanOrEqual(size);
    }

    async function readsOf() {
      for (let tries = 0; ; tries++) {
        const all = await findRecords(target, [['principal', name]]);
        const reads = all.filter(({ action }) => action === 's3:GetObject');
        if (reads.length === got.size || tries === 50) return reads;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  } finally {
    await target.stop();
  }
}
