// Signs the bench's requests before the clock starts (AWS Signature Version 4, header form).
// It shares no code with the gateway on purpose: all servers are driven by the same requests, and
// a build of any age can be measured.
import { createHmac, createSecretKey, hash } from 'node:crypto';

export const unsignedPayload = 'UNSIGNED-PAYLOAD';
export const emptySha256 = hash('sha256', '', 'hex');

/**
 * @typedef {{host: string, port: number, accessKeyId: string, secretAccessKey: string}} Target
 * @typedef {{
 *   method: string, path: string, query?: string, sizeBytes?: number, sha256?: string
 * }} Request `path` and `query` are already percent-encoded; the query's parameters are in order.
 */

/**
 * Makes a signer for one server. The signing key is derived once.
 * @param {Target} target
 * @returns {(request: Request) => Buffer} the request's line and headers, ready to be sent
 */
export function makeSigner({ host, port, accessKeyId, secretAccessKey }) {
  const time = new Date().toISOString().replace(/[-:]|\.\d{3}/g, '');
  const scope = `${time.slice(0, 8)}/us-east-1/s3/aws4_request`;
  const signingKey = scope
    .split('/')
    .reduce((parent, part) => hmac(parent, part), `AWS4${secretAccessKey}`);
  const key = createSecretKey(signingKey);
  const signedHeaders = 'host;x-amz-content-sha256;x-amz-date';

  return ({ method, path, query = '', sizeBytes, sha256 = emptySha256 }) => {
    const amz = `x-amz-content-sha256:${sha256}\nx-amz-date:${time}`;
    const canonicalHeaders = `host:${host}:${port}\n${amz}\n`;
    const canonical = [method, path, query, canonicalHeaders, signedHeaders, sha256].join('\n');
    const signed = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash('sha256', canonical, 'hex')}`;
    const signature = hmac(key, signed).toString('hex');
    const length = sizeBytes === undefined ? '' : `Content-Length: ${sizeBytes}\r\n`;
    return Buffer.from(
      `${method} ${path}${query && `?${query}`} HTTP/1.1\r\nHost: ${host}:${port}\r\n` +
        `x-amz-date: ${time}\r\nx-amz-content-sha256: ${sha256}\r\n${length}` +
        `Authorization: AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, ` +
        `SignedHeaders=${signedHeaders}, Signature=${signature}\r\n\r\n`,
      'latin1',
    );
  };
}

function hmac(key, text) {
  return createHmac('sha256', key).update(text).digest();
}
