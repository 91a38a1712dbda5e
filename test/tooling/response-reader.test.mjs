// The bench's own parser: a wrong count here would be a wrong number in the report.
import { expect, it } from 'vitest';
import { ResponseReader } from '../../bench/response-reader.mjs';

const responses = [
  ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', 200, 5],
  ['HTTP/1.1 200 OK\r\ncontent-length: 0\r\nETag: "x"\r\n\r\n', 200, 0],
  ['HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n', 404, 3],
  [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' +
      `a;x=1\r\n${'\r\n'.repeat(5)}\r\n1\r\n0\r\n0\r\nTrailer: y\r\n\r\n`,
    200,
    11,
  ],
  ['HTTP/1.1 204 No Content\r\n\r\n', 204, 0],
];
const stream = Buffer.from(responses.map(([text]) => text).join(''), 'latin1');
const expected = responses.map(([, status, bodyBytes]) => ({ status, bodyBytes }));

for (const pieceBytes of [1, 2, 3, 7, 50, stream.length]) {
  it(`counts every response when the stream comes in pieces of ${pieceBytes} bytes`, () => {
    const seen = [];
    const reader = new ResponseReader((status, bodyBytes) => seen.push({ status, bodyBytes }));
    // The buffer is longer than what is read into it, and holds an older read's bytes behind it.
    const buffer = Buffer.from('\r\n\r\n'.repeat(100));
    for (let at = 0; at < stream.length; at += pieceBytes) {
      const end = Math.min(at + pieceBytes, stream.length);
      stream.copy(buffer, 0, at, end);
      reader.push(buffer, end - at);
    }
    expect(seen).toEqual(expected);
  });
}

it('throws on what is not HTTP', () => {
  const reader = new ResponseReader(() => {});
  const noise = Buffer.from('SSH-2.0-x\r\n\r\n');
  expect(() => reader.push(noise, noise.length)).toThrow(/not a response/);
});
