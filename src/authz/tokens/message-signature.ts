// HTTP Message Signatures as proofs that the sender holds a key. Invariant: a signature counts only
// if it covers the method, the whole target, the token, the body's digest where there is a body,
// and every x-amz-* and x-bursar-* header: a header outside of it could make the signer copy or
// publish what they never meant to.
// Specification: RFC 9421 sections 2, 3.2 and 4; RFC 9530 for Content-Digest; RFC 8941 for their
// syntax, of which one form is read: a single signature, components without parameters, and no
// escapes, which is what signers write.
import { decodeBase64 } from '../../core/base64.ts';
import { coveredComponentsMax, proofBytesMax } from './bounds.ts';
import { proofRefusal } from './faults.ts';
import {
  type Algorithm,
  type PrivateKey,
  type PublicKey,
  signBytes,
  verifyBytesAside,
} from './keys.ts';
import { fieldValue, type RequestDescription, targetUri } from './request-description.ts';

export interface MessageSignature {
  createdMs: number;
  nonce: string;
  /** SHA-256 that the body must have; undefined: there is no body. */
  contentSha256: Buffer | undefined;
  /** What was signed, as Latin-1 text: the signature base, or of DPoP the JWS signing input. */
  signed: string;
  signature: Buffer;
}

const algorithmNames: Record<Algorithm, string> = {
  EdDSA: 'ed25519',
  ES256: 'ecdsa-p256-sha256',
};

/**
 * Verifies the request's `Signature` with the key. Throws Refusal InvalidProof. Time, nonce and the
 * body itself are yet to be checked.
 */
export async function verifyMessageSignature(
  request: RequestDescription,
  key: PublicKey,
): Promise<MessageSignature> {
  const input = readInput(fieldValue(request, 'signature-input') ?? '');
  const signature = readSignature(fieldValue(request, 'signature') ?? '', input.label);
  const { keyid, alg, nonce } = input.parameters;
  if (keyid !== key.thumbprint) {
    throw proofRefusal('Key', 'has as "keyid" another key than the one the token is bound to');
  }
  if (alg !== undefined && alg !== algorithmNames[key.algorithm]) {
    throw proofRefusal('Header', `must have the "alg" ${algorithmNames[key.algorithm]}, or none`);
  }
  const createdMs = readSeconds(input.parameters.created, 'created');
  if (nonce === undefined) throw proofRefusal('Malformed', 'must have a "nonce"');
  checkCovered(request, input.components);
  const base = signatureBase(request, input.components, input.parametersText);
  if (!(await verifyBytesAside(key, Buffer.from(base, 'latin1'), signature))) {
    throw proofRefusal('Signature', 'is not a signature of this request');
  }
  const isDigested = input.components.includes('content-digest');
  const contentSha256 = isDigested ? readContentDigest(request) : undefined;
  return { createdMs, nonce, contentSha256, signed: base, signature };
}

interface SignatureInput {
  label: string;
  components: readonly string[];
  parameters: Readonly<Record<string, string | undefined>>;
  /** What `@signature-params` stands for in the signature base. */
  parametersText: string;
}

const labelForm = '[a-z*][a-z0-9_.*-]*';
const listForm = '"[a-z0-9@_-]+"(?: "[a-z0-9@_-]+")*';
const inputForm = new RegExp(
  `^(${labelForm})=(\\((${listForm})\\)((?:;[a-z]+=(?:"[^"\\\\]*"|\\d+))+))$`,
);
const parameterNames = ['created', 'nonce', 'keyid', 'alg', 'tag'];

function readInput(text: string): SignatureInput {
  if (text.length > proofBytesMax) {
    throw proofRefusal('TooLarge', `is longer than ${proofBytesMax} bytes`);
  }
  const [, label, parametersText, list, rest] = inputForm.exec(text) ?? [];
  if (!label || !parametersText || !list || !rest) {
    const wanted = 'label=("component" "component" …);created=…;keyid="…";nonce="…"';
    throw proofRefusal('Malformed', `must have one Signature-Input of the form ${wanted}`);
  }
  const components = list.split(' ').map((one) => one.slice(1, -1));
  if (components.length > coveredComponentsMax || new Set(components).size !== components.length) {
    throw proofRefusal('Malformed', 'covers a component twice, or too many');
  }
  const parameters: Record<string, string> = {};
  for (const [, name = '', quoted, digits = ''] of rest.matchAll(
    /;([a-z]+)=(?:"([^"]*)"|(\d+))/g,
  )) {
    if (!parameterNames.includes(name) || Object.hasOwn(parameters, name)) {
      throw proofRefusal('Malformed', `has the parameter "${name}" twice, or it is not known`);
    }
    parameters[name] = quoted ?? digits;
  }
  return { label, components, parameters, parametersText };
}

function readSeconds(text: string | undefined, name: string): number {
  if (text === undefined || !/^\d{1,12}$/.test(text)) {
    throw proofRefusal('Malformed', `must have as "${name}" a whole number of seconds since 1970`);
  }
  return Number(text) * 1000;
}

const byteSequence = '[A-Za-z0-9+/]*={0,2}';
const signatureForm = new RegExp(`^(${labelForm})=:(${byteSequence}):$`);

function readSignature(text: string, label: string): Buffer {
  const [, name, base64 = ''] = signatureForm.exec(text) ?? [];
  const signature = decodeBase64(base64);
  if (name === label && signature !== undefined) return signature;
  throw proofRefusal('Malformed', `must have one Signature of the form ${label}=:base64:`);
}

function isSignificant(name: string): boolean {
  return name.startsWith('x-amz-') || name.startsWith('x-bursar-');
}

/** The components that a signature of this request must cover. */
function neededComponents(request: RequestDescription): string[] {
  const needed = ['@method', '@target-uri'];
  // Where the token is not in a header it is in the body, as at STS.
  if (request.headers.authorization !== undefined) needed.push('authorization');
  if (request.hasBody) needed.push('content-digest');
  for (const name in request.headers) {
    if (isSignificant(name) && request.headers[name] !== undefined) needed.push(name);
  }
  return needed;
}

function checkCovered(request: RequestDescription, components: readonly string[]): void {
  const missing = neededComponents(request).filter((name) => !components.includes(name));
  if (missing.length > 0) {
    throw proofRefusal('Uncovered', `does not cover ${missing.join(', ')}`);
  }
}

/** RFC 9421 section 2.5. Throws Refusal InvalidProof where the request lacks a component. */
function signatureBase(
  request: RequestDescription,
  components: readonly string[],
  parametersText: string,
): string {
  const lines = components.map((name) => {
    const value = componentValue(request, name);
    if (value === undefined) throw proofRefusal('Request', `covers ${name}, which is not there`);
    return `"${name}": ${value}\n`;
  });
  return `${lines.join('')}"@signature-params": ${parametersText}`;
}

function componentValue(request: RequestDescription, name: string): string | undefined {
  switch (name) {
    case '@method':
      return request.method;
    case '@target-uri':
      return targetUri(request.url);
    default:
      return name.startsWith('@') ? undefined : fieldValue(request, name);
  }
}

const digestForm = new RegExp(`(?:^|, ?)sha-256=:(${byteSequence}):(?=,|$)`, 'g');

function readContentDigest(request: RequestDescription): Buffer {
  const text = fieldValue(request, 'content-digest') ?? '';
  const [found, ...more] = [...text.matchAll(digestForm)];
  const digest = decodeBase64(found?.[1] ?? '');
  if (digest?.length === 32 && more.length === 0) return digest;
  throw proofRefusal('Digest', 'must cover a Content-Digest with one sha-256=:base64:');
}

export interface SigningOptions {
  key: PrivateKey;
  /** SHA-256 of the body; undefined: there is none. */
  contentSha256?: Uint8Array;
  createdMs: number;
  nonce: string;
}

/** The headers that sign the request, which must have its `authorization` already. */
export function signMessage(
  request: RequestDescription,
  { key, contentSha256, createdMs, nonce }: SigningOptions,
): Record<string, string> {
  const added: Record<string, string> = {};
  if (contentSha256 !== undefined) {
    added['content-digest'] = `sha-256=:${Buffer.from(contentSha256).toString('base64')}:`;
  }
  const described = { ...request, headers: { ...request.headers, ...added } };
  const components = neededComponents({ ...described, hasBody: contentSha256 !== undefined });
  const list = components.map((name) => `"${name}"`).join(' ');
  const { thumbprint, algorithm } = key.publicKey;
  const parametersText =
    `(${list});created=${Math.floor(createdMs / 1000)};keyid="${thumbprint}"` +
    `;alg="${algorithmNames[algorithm]}";nonce="${nonce}"`;
  const base = signatureBase(described, components, parametersText);
  const signature = signBytes(key, Buffer.from(base, 'latin1'));
  return {
    ...added,
    'signature-input': `bursar=${parametersText}`,
    signature: `bursar=:${signature.toString('base64')}:`,
  };
}
