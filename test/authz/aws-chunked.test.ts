import { describe, expect, it } from 'vitest';
import {
  AwsChunkedDecoder,
  type AwsChunkedOptions,
  type ChunkSeed,
  trailerNames,
} from '#bursar/authz/aws-chunked.js';
import { chunkBytesMax, chunkHeaderBytesMax, trailerBytesMax } from '#bursar/core/limits.js';
import { deriveSigningKey } from '#bursar/core/sigv4.js';
import { encodeChunks } from './chunk-encoder.ts';
import { region, secret } from './requests.ts';

const example: ChunkSeed = {
  signingKey: deriveSigningKey(secret, { date: '20130524', region, service: 's3' }),
  scope: '20130524/us-east-1/s3/aws4_request',
  amzDate: '20130524T000000Z',
  signature: '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
};
const exampleData = [Buffer.alloc(65_536, 'a'), Buffer.alloc(1024, 'a')];
const crc32c: readonly [string, string] = ['x-amz-checksum-crc32c', 'sOO8/Q=='];

const plain: AwsChunkedOptions = {
  decodedBytes: 0,
  seed: null,
  trailer: true,
  trailerNames: [],
};

interface Decoded {
  data: Buffer;
  trailers: Record<string, string>;
}

/** Decodes a whole body, fed `pieceBytes` at a time. */
function decode(body: Buffer | string, options: AwsChunkedOptions, pieceBytes = 1 << 30): Decoded {
  const bytes = Buffer.from(body as string, 'latin1');
  const decoder = new AwsChunkedDecoder(options);
  const data: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    decoder.push(bytes.subarray(at, at + pieceBytes), (slice) => data.push(slice));
  }
  decoder.finish();
  return { data: Buffer.concat(data), trailers: Object.fromEntries(decoder.trailers) };
}

/** The code of the Refusal that decoding ends in. */
function refused(body: Buffer | string, options: AwsChunkedOptions): string {
  let code = 'none';
  for (const pieceBytes of [1 << 30, 7, 1]) {
    let error: unknown;
    try {
      decode(body, options, pieceBytes);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ name: 'Refusal' });
    const next = (error as { code: string }).code;
    if (code !== 'none') expect(next).toBe(code);
    code = next;
  }
  return code;
}

describe("AWS's published chunked uploads", () => {
  it('the documented body is 66,824 bytes, carries the documented signatures, and decodes', () => {
    const { bytes, signatures } = encodeChunks(exampleData, example, null);
    expect(bytes.length).toBe(66_824);
    expect(signatures).toEqual([
      'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
      '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
      'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
    ]);
    const options = { ...plain, seed: example, trailer: false, decodedBytes: 66_560 };
    for (const pieceBytes of [1, 13, 4096, 65_536, 66_824]) {
      const { data } = decode(bytes, options, pieceBytes);
      expect(data.equals(Buffer.concat(exampleData))).toBe(true);
    }
  });

  const seed = {
    ...example,
    signature: '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
  };
  const options = {
    seed,
    trailer: true,
    trailerNames: ['x-amz-checksum-crc32c'],
    decodedBytes: 66_560,
  };

  it('the documented body with a trailer carries the documented signatures and decodes', () => {
    const { bytes, signatures } = encodeChunks(exampleData, seed, [crc32c]);
    expect(signatures).toEqual([
      'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
      '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
      '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
      'd81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435',
    ]);
    const { data, trailers } = decode(bytes, options);
    expect(data.equals(Buffer.concat(exampleData))).toBe(true);
    expect(trailers).toEqual({ 'x-amz-checksum-crc32c': 'sOO8/Q==' });
  });

  it("minio-go's trailer, with a line feed alone and an empty line, decodes", () => {
    const text = encodeChunks(exampleData, seed, [crc32c]).bytes.toString('latin1');
    const written = text.replace('sOO8/Q==\r\n', 'sOO8/Q==\n\r\n');
    expect(decode(written, options).trailers).toEqual({ 'x-amz-checksum-crc32c': 'sOO8/Q==' });
  });

  it("minio-go's trailer decodes without signatures, too, and nothing may follow it", () => {
    const unsigned = { ...options, seed: null };
    const text = encodeChunks(exampleData, null, [crc32c]).bytes.toString('latin1');
    const written = text.replace('sOO8/Q==\r\n', 'sOO8/Q==\n\r\n');
    const trailers = { 'x-amz-checksum-crc32c': 'sOO8/Q==' };
    expect(decode(written, unsigned).trailers).toEqual(trailers);
    expect(refused(`${written}\r\n`, unsigned)).toBe('IncompleteBody');
  });

  it('a changed trailer does not match its signature', () => {
    const text = encodeChunks(exampleData, seed, [crc32c]).bytes.toString('latin1');
    expect(refused(text.replace('sOO8', 'sOO9'), options)).toBe('SignatureDoesNotMatch');
  });

  it('a signed trailer without its signature is refused', () => {
    const text = encodeChunks(exampleData, seed, [crc32c]).bytes.toString('latin1');
    const unsigned = text.replace(/x-amz-trailer-signature:.*\r\n/, '');
    expect(refused(unsigned, options)).toBe('IncompleteBody');
  });

  it('a header after the trailer signature is refused', () => {
    const text = encodeChunks(exampleData, seed, [crc32c]).bytes.toString('latin1');
    const late = text.replace(/\r\n$/, 'x-amz-checksum-crc32c:AAAAAA==\r\n\r\n');
    expect(refused(late, options)).toBe('MalformedTrailerError');
  });
});

describe('signed chunks', () => {
  const data = ['hello, ', 'world'].map((text) => Buffer.from(text));
  const options = { ...plain, seed: example, trailer: false, decodedBytes: 12 };
  const text = encodeChunks(data, example, null).bytes.toString('latin1');

  it('data is emitted as slices of the very bytes that were pushed', () => {
    const bytes = Buffer.from(text, 'latin1');
    const decoder = new AwsChunkedDecoder(options);
    const slices: Buffer[] = [];
    decoder.push(bytes, (slice) => slices.push(slice));
    decoder.finish();
    expect(Buffer.concat(slices).toString()).toBe('hello, world');
    expect(slices.every((slice) => slice.buffer === bytes.buffer)).toBe(true);
  });

  it.each([
    ['a changed byte', text.replace('hello', 'hellO'), 'SignatureDoesNotMatch'],
    ['a changed signature', text.replace(/signature=./, 'signature=x'), 'SignatureDoesNotMatch'],
    ['a short signature', text.replace(/signature=./, 'signature='), 'SignatureDoesNotMatch'],
    ['no signature', text.replace(/;chunk-signature=\w*/, ''), 'IncompleteBody'],
    ['another extension', text.replace(';chunk-', ';junk-'), 'IncompleteBody'],
    ['its chunks merged', text.replace(/^7/, 'c'), 'IncompleteBody'],
    ['a byte after its end', `${text}x`, 'IncompleteBody'],
    ['a line feed for CRLF', text.replace('\r\n', '\n'), 'IncompleteBody'],
    ['its last chunk missing', text.replace(/0;chunk.*\r\n\r\n$/, ''), 'IncompleteBody'],
    ['its end missing', text.slice(0, -1), 'IncompleteBody'],
    ['nothing in it', '', 'IncompleteBody'],
  ])('a body with %s is refused', (_title, body, code) => {
    expect(refused(body, options)).toBe(code);
  });

  it('chunks in another order do not match', () => {
    const { bytes } = encodeChunks([...data].reverse(), example, null);
    const parts = bytes.toString('latin1').split(/(?<=\r\n)(?=\w+;chunk)/);
    const swapped = [parts[1], parts[0], parts[2]].join('');
    expect(refused(swapped, options)).toBe('SignatureDoesNotMatch');
  });

  it('more or less data than announced is an incomplete body', () => {
    expect(refused(text, { ...options, decodedBytes: 11 })).toBe('IncompleteBody');
    expect(refused(text, { ...options, decodedBytes: 13 })).toBe('IncompleteBody');
  });

  it('an empty object is one last chunk', () => {
    const empty = encodeChunks([], example, null).bytes;
    expect(decode(empty, { ...options, decodedBytes: 0 }).data.length).toBe(0);
  });

  it('a signed chunk above the limit is refused at its header', () => {
    const header = `${(chunkBytesMax + 1).toString(16)};chunk-signature=${'0'.repeat(64)}\r\n`;
    const decodedBytes = 2 * chunkBytesMax;
    expect(refused(header, { ...options, decodedBytes })).toBe('InvalidRequest');
  });

  it('a decoder that has refused refuses again with the same words', () => {
    const decoder = new AwsChunkedDecoder(options);
    const emit = (): void => undefined;
    const attempts = [
      () => decoder.push(Buffer.from('x\r\n'), emit),
      () => decoder.push(Buffer.from(text, 'latin1'), emit),
      () => decoder.finish(),
    ];
    for (const attempt of attempts) expect(attempt).toThrow('not hexadecimal');
  });
});

describe('unsigned chunks with trailers', () => {
  const options = { ...plain, decodedBytes: 5, trailerNames: ['x-amz-checksum-crc32'] };
  const body = '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n';

  it('data and trailer are decoded, names in any case, spaces around the value', () => {
    const expected = { 'x-amz-checksum-crc32': 'NhCmhg==' };
    const written = body.replace('x-amz-checksum-crc32:', 'X-Amz-Checksum-CRC32: ');
    for (const text of [body, written]) {
      const { data, trailers } = decode(text, options);
      expect(data.toString()).toBe('hello');
      expect(trailers).toEqual(expected);
    }
  });

  it('an unsigned chunk may be as large as the object', () => {
    const decodedBytes = chunkBytesMax + 1;
    const decoder = new AwsChunkedDecoder({ ...options, decodedBytes });
    let bytes = 0;
    const emit = (data: Buffer): void => {
      bytes += data.length;
    };
    decoder.push(Buffer.from(`${decodedBytes.toString(16)}\r\n`), emit);
    const piece = Buffer.alloc(1 << 20);
    for (let left = decodedBytes; left > 0; left -= piece.length) {
      decoder.push(piece.subarray(0, Math.min(left, piece.length)), emit);
    }
    decoder.push(Buffer.from(body.slice(body.indexOf('\r\n0\r\n')), 'latin1'), emit);
    decoder.finish();
    expect(bytes).toBe(decodedBytes);
  });

  it.each([
    ['a missing trailer', body.replace(/x-amz.*\r\n/, ''), 'MalformedTrailerError'],
    ['a trailer that was not announced', body.replace('crc32', 'sha1'), 'MalformedTrailerError'],
    ['a trailer twice', body.replace(/(x-amz.*\r\n)/, '$1$1'), 'MalformedTrailerError'],
    ['a trailer without a colon', body.replace('32:', '32'), 'MalformedTrailerError'],
    ['a trailer without a name', body.replace(/x-amz.*:/, ':'), 'MalformedTrailerError'],
    [
      'an endless trailer',
      body.replace('Nh', 'N'.repeat(trailerBytesMax)),
      'MalformedTrailerError',
    ],
    ['an endless size line', `5;${'x'.repeat(chunkHeaderBytesMax)}`, 'IncompleteBody'],
    ['a size that is not hexadecimal', body.replace('5', '5g'), 'IncompleteBody'],
    ['a negative size', body.replace('5', '-5'), 'IncompleteBody'],
    ['an empty size', body.replace('5', ''), 'IncompleteBody'],
    ['a size above all numbers', body.replace('5', 'f'.repeat(400)), 'IncompleteBody'],
    ['a chunk longer than its size', body.replace('hello', 'hello!'), 'IncompleteBody'],
    ['half a trailer', body.slice(0, -8), 'IncompleteBody'],
    ['no last chunk', body.slice(0, body.indexOf('0\r\nx')), 'IncompleteBody'],
  ])('a body with %s is refused', (_title, text, code) => {
    expect(refused(text, options)).toBe(code);
  });

  it('the empty line at the very end may be missing', () => {
    expect(decode(body.slice(0, -2), options).data.toString()).toBe('hello');
  });
});

describe('the headers of a chunked body', () => {
  it('announced trailers are read as a list of lower-case names', () => {
    expect(trailerNames({})).toEqual([]);
    expect(trailerNames({ 'x-amz-trailer': 'X-Amz-Checksum-CRC32, b,' })).toEqual([
      'x-amz-checksum-crc32',
      'b',
    ]);
  });
});
