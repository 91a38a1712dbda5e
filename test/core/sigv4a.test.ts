// SigV4A by what AWS published: the derivation vector of aws-c-auth's unit tests, which AWS's IAM
// and SDKs share, and the case "get-vanilla" of its signing test suite.
import { createPublicKey, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { canonicalRequest } from '#bursar/core/canonical-request.js';
import { emptySha256, stringToSign } from '#bursar/core/sigv4.js';
import {
  asymmetricAlgorithm,
  derivePrivateKey,
  isRegionSet,
  verifyText,
} from '#bursar/core/sigv4a.js';

const suite = {
  accessKeyId: 'AKIDEXAMPLE',
  secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  text: stringToSign(
    asymmetricAlgorithm,
    '20150830T123600Z',
    '20150830/service/aws4_request',
    canonicalRequest({
      method: 'GET',
      path: '/',
      query: [],
      headerNames: ['host', 'x-amz-date', 'x-amz-region-set'],
      headerValues: ['example.amazonaws.com', '20150830T123600Z', 'us-east-1'],
      payload: emptySha256,
    }),
  ),
  signatures: [
    '3046022100fddaaf816a31e30d04973875b13bc27b98da10907a3a1872fd5819a221334abc' +
      '022100de2ee81d83b54f31efc82834de07e6cd4d5c6f25bfa08e0f29a15bb0977c343e',
    '3045022018b4e277d0281864beb51d3600e23f88510ea5031d68ddfbb68614b82a5eb7d2' +
      '022100effb9c5f22ed9ef3ae0ab243d21f06bce82365bbb79529a07b6888c343ae5f8c',
  ],
};
const privateKey = derivePrivateKey(suite.accessKeyId, suite.secret);
const publicKey = createPublicKey(privateKey);

function hexOf(key: KeyObject): Record<string, string> {
  const { d = '', x = '', y = '' } = key.export({ format: 'jwk' });
  const hex = (text: string) => Buffer.from(text, 'base64url').toString('hex');
  return { d: hex(d), x: hex(x), y: hex(y) };
}

describe('the key pair of a secret', () => {
  it('is the one that AWS derives', () => {
    const key = derivePrivateKey(
      'AKISORANDOMAASORANDOM',
      'q+jcrXGc+0zWN6uzclKVhvMmUsIfRPa4rlRandom',
    );
    expect(hexOf(key)).toEqual({
      d: '7fd3bd010c0d9c292141c2b77bfbde1042c92e6836fff749d1269ec890fca1bd',
      x: '15d242ceebf8d8169fd6a8b5a746c41140414c3b07579038da06af89190fffcb',
      y: '0515242cedd82e94799482e4c0514b505afccf2c0c98d6a553bf539f424c5ec0',
    });
    expect(hexOf(privateKey)).toMatchObject({
      x: 'b6618f6a65740a99e650b33b6b4b5bd0d43b176d721a3edfea7e7d2d56d936b1',
      y: '865ed22a7eadc9c5cb9d2cbaca1b3699139fedc5043dc6661864218330c8e518',
    });
  });

  it('is another one for each id and each secret', () => {
    const { accessKeyId, secret } = suite;
    const others = [
      derivePrivateKey(`${accessKeyId}2`, secret),
      derivePrivateKey(accessKeyId, `${secret}2`),
    ];
    expect(new Set([privateKey, ...others].map((key) => hexOf(key).d)).size).toBe(3);
  });
});

describe('a signature', () => {
  it("is verified by the public half: AWS's own, and one of ours", () => {
    expect(suite.text).toContain(
      'cf59db423e841c8b7e3444158185aa261b724a5c27cbe762676f3eed19f4dc02',
    );
    const ours = sign('sha256', Buffer.from(suite.text), privateKey).toString('hex');
    for (const signature of [...suite.signatures, ours]) {
      expect(verifyText(publicKey, suite.text, signature)).toBe(true);
      expect(verifyText(publicKey, `${suite.text} `, signature)).toBe(false);
    }
  });

  it('in any other form than DER in lower-case hexadecimal is none, and nothing is thrown', () => {
    const [good = ''] = suite.signatures;
    const raw = sign('sha256', Buffer.from(suite.text), {
      key: privateKey,
      dsaEncoding: 'ieee-p1363',
    });
    const zeros = '3006020100020100';
    for (const bad of [
      ...['', '00', zeros, 'x'.repeat(140), '0'.repeat(144), 'f'.repeat(200_000)],
      ...[raw.toString('hex'), good.toUpperCase(), `${good}00`, `${good}*`, good.slice(2)],
      Buffer.from(good, 'hex').toString('base64'),
      // The long form of DER's length where the short one does.
      `308146${good.slice(4)}`,
    ]) {
      expect(verifyText(publicKey, suite.text, bad)).toBe(false);
    }
  });
});

describe('a set of regions', () => {
  it.each(['*', 'us-east-1', 'us-east-1,eu-*', 'us-*,eu-west-1'])('%s is one', (text) => {
    expect(isRegionSet(text)).toBe(true);
  });

  it.each(['', ',', 'us-east-1,', 'us east', 'us-east-1, eu-*', 'a'.repeat(65), 'ü'])(
    '%j is none',
    (text) => {
      expect(isRegionSet(text)).toBe(false);
    },
  );
});
