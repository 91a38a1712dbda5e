// Outside issuers for tests: an HTTP server that publishes what it is told to, tokens signed with
// node:crypto (so that nothing that verifies has also signed), and a tenant that trusts them.

import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  onlyPrivate,
  type PrivateHost,
  parsePrivateHost,
} from '#bursar/authz/oidc/address-policy.js';
import type { IssuerMapping } from '#bursar/authz/oidc/issuer.js';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { schema } from '#bursar/ledger/schema.js';
import { Directory } from '#bursar/state/directory.js';
import { OutsideTokens } from '#bursar/state/outside-tokens.js';
import { ToldMemory } from '../../state/told-memory.ts';

export const audience = 'https://bursar.example/cms';
export const startMs = Date.UTC(2026, 5, 1);

export interface SigningKey {
  kid: string;
  alg: string;
  privateKey: KeyObject;
  publicKey: KeyObject;
}

export function makeKey(alg: string, kid: string): SigningKey {
  return { kid, alg, ...pairFor(alg) };
}

function pairFor(alg: string) {
  if (alg === 'EdDSA') return generateKeyPairSync('ed25519');
  if (alg === 'ES384') return generateKeyPairSync('ec', { namedCurve: 'P-384' });
  if (alg === 'ES256') return generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return generateKeyPairSync('rsa', { modulusLength: 2048 });
}

export function jwkOf({ kid, alg, publicKey }: SigningKey): object {
  return { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
}

export type Claims = Record<string, unknown>;

/** A compact JWS. The header may say anything; the key signs as its own algorithm wants. */
export function signToken(key: SigningKey, claims: Claims | string, header: Claims = {}): string {
  const head = JSON.stringify({ alg: key.alg, typ: 'JWT', kid: key.kid, ...header });
  const body = typeof claims === 'string' ? claims : JSON.stringify(claims);
  const input = [head, body].map((text) => Buffer.from(text).toString('base64url')).join('.');
  return `${input}.${signatureOf(key, Buffer.from(input)).toString('base64url')}`;
}

function signatureOf({ alg, privateKey }: SigningKey, input: Buffer): Buffer {
  if (alg === 'EdDSA') return sign(null, input, privateKey);
  const digest = `sha${alg.slice(2)}`;
  if (alg.startsWith('ES'))
    return sign(digest, input, { key: privateKey, dsaEncoding: 'ieee-p1363' });
  if (alg.startsWith('RS')) return sign(digest, input, privateKey);
  // RSASSA-PSS with a salt as long as the digest.
  return sign(digest, input, { key: privateKey, padding: 6, saltLength: Number(alg.slice(2)) / 8 });
}

/** Of a token, with another header and a signature by HMAC with this secret. */
export function signByHmac(claims: Claims, header: Claims, secret: string | Buffer): string {
  const parts = [{ alg: 'HS256', typ: 'JWT', ...header }, claims];
  const input = parts
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}

/** An issuer on a free port of the loopback interface. */
export class FakeIssuer {
  readonly url: string;
  readonly #server: Server;
  keys: SigningKey[] = [];
  /** What was asked of it, in order. */
  readonly asked: string[] = [];
  /** Answers in the place of the usual documents. */
  answer: RequestListener | null = null;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => {
      this.asked.push(request.url ?? '');
      if (this.answer) this.answer(request, response);
      else response.end(JSON.stringify(this.document(request.url ?? '')));
    });
  }

  static async start(...keys: SigningKey[]): Promise<FakeIssuer> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const issuer = new FakeIssuer(server);
    issuer.keys = keys;
    return issuer;
  }

  document(path: string): object {
    return path === '/jwks'
      ? { keys: this.keys.map(jwkOf) }
      : { issuer: this.url, jwks_uri: `${this.url}/jwks` };
  }

  /** The claims of an ordinary token at `nowMs`. */
  claims(more: Claims = {}, nowMs = startMs): Claims {
    const iat = nowMs / 1000;
    const times = { iat, nbf: iat, exp: iat + 3600 };
    return { iss: this.url, aud: audience, sub: 'subject-of-alice', ...times, ...more };
  }

  token(more: Claims = {}, header: Claims = {}): string {
    return signToken(this.keys[0] as SigningKey, this.claims(more), header);
  }

  tokenAt(nowMs: number, more: Claims = {}): string {
    return signToken(this.keys[0] as SigningKey, this.claims(more, nowMs));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export interface Trust {
  outside: OutsideTokens;
  /** Commits a change and has memory follow, as the gateway does. */
  apply(change: IdentityChange): Promise<void>;
  /** Has cms trust the issuer. */
  trust(name: string, url: string, mapping?: Partial<IssuerMapping>, aud?: string): Promise<void>;
  /** What the operator was told. */
  problems: string[];
  close(): void;
}

const mappingDefault: IssuerMapping = {
  pathPrefix: '/raw/2026',
  principals: { 'subject-of-alice': 'alice', 'subject-of-root': 'root' },
  groups: { '/cms/shifters': 'shifters' },
  defaultPrincipal: null,
};

/** The tenant `cms` with alice, bob, an operator `root`, and the group `shifters`. */
export async function openTrust({
  privateHosts = ['127.0.0.1:*'],
  fetchMsMax = 1000,
}: {
  privateHosts?: readonly string[];
  fetchMsMax?: number;
} = {}): Promise<Trust> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-oidc-'));
  const db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  const sealer = new Sealer(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]));
  const problems: string[] = [];
  const memory = new ToldMemory();
  const directory = new Directory({ read: db.tx, sealer, followed: memory });
  const outside = await OutsideTokens.load({
    read: db.tx,
    directory,
    followed: memory,
    policy: onlyPrivate(privateHosts.map((text) => parsePrivateHost(text) as PrivateHost)),
    onProblem: (reason) => problems.push(reason),
    fetchMsMax,
  });
  memory.projections.push(directory, outside);
  const apply = async (change: IdentityChange) => {
    const moment = { timeMs: startMs, seq: 0 };
    const commit = () => identityCommandOf(change).apply(db.tx, structuredClone(change), moment);
    const verdict = await memory.change(db.tx, change, commit);
    if (!verdict.ok) throw new Error(verdict.code);
  };
  const trust: Trust['trust'] = (name, url, mapping = {}, aud = audience) =>
    apply({
      kind: 'putIssuer',
      tenant: 'cms',
      name,
      url,
      audience: aud,
      mapping: { ...mappingDefault, ...mapping },
      byOperator: true,
    });
  await apply({ kind: 'createTenant', name: 'cms', membersCreateBuckets: true });
  await apply({ kind: 'createGroup', tenant: 'cms', name: 'shifters' });
  for (const name of ['alice', 'bob', 'root']) {
    const role = name === 'root' ? 'operator' : 'member';
    await apply({
      ...{ kind: 'createPrincipal', tenant: 'cms', name },
      ...{ principalKind: 'robot', role, groups: [] },
    });
  }
  const close = () => {
    db.close();
    rmSync(folder, { recursive: true });
  };
  return { outside, apply, trust, problems, close };
}
