// A gateway with Alice's bucket and tokens of hers, and what honest holders and attackers do with
// them.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type DelegateRequest, delegate } from '#bursar/authz/tokens/delegate.js';
import { type IssueRequest, issueToken } from '#bursar/authz/tokens/issue.js';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { createProof, type ProofRequest } from '#bursar/authz/tokens/proof.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

export const hour = 3_600_000;
/** Enrolled: of a member and an admin of `cms`, and of an admin of another tenant. */
export const aliceKey = generatePrivateKey('ES256');
export const carolKey = generatePrivateKey('EdDSA');
export const eveKey = generatePrivateKey('EdDSA');
/** What tokens are bound to. */
export const jobKey = generatePrivateKey('EdDSA');
export const subJobKey = generatePrivateKey('ES256');
export const strangerKey = generatePrivateKey('EdDSA');

export interface Asked {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  body?: string;
}

type Started = Pick<DelegationRig, 'target' | 'alice' | 'boss' | 'gatewayKid' | 'uploadId'>;

export class DelegationRig {
  readonly target: Target;
  readonly alice: Target;
  /** An admin. */
  readonly boss: Target;
  /** Of the gateway's own key, as it publishes it. */
  readonly gatewayKid: string;
  /** An upload of Alice's to `new/x`. */
  readonly uploadId: string;

  private constructor(given: Started) {
    this.target = given.target;
    this.alice = given.alice;
    this.boss = given.boss;
    this.gatewayKid = given.gatewayKid;
    this.uploadId = given.uploadId;
  }

  static async start(): Promise<DelegationRig> {
    const target = await startEmbeddedTarget();
    for (const name of ['cms', 'atlas']) {
      await callNative(target, 'POST', '/_/v1/tenants', { name });
    }
    const made = async (tenant: string, name: string, role = 'member') =>
      as(target, await newPrincipal(target, { tenant, name, role }));
    const alice = await made('cms', 'alice');
    const boss = await made('cms', 'boss', 'admin');
    await made('cms', 'carol', 'admin');
    const eve = await made('atlas', 'eve', 'admin');
    await enrol(target, 'cms/alice', aliceKey);
    await enrol(target, 'cms/carol', carolKey);
    await enrol(target, 'atlas/eve', eveKey);
    for (const owner of [eve, alice]) await send(owner, { method: 'PUT', path: '/raw' });
    for (const key of ['foo', 'foo/a', 'foobar', 'secret', 'new/there', 'in/source']) {
      await send(alice, { method: 'PUT', path: `/raw/${key}`, body: `content of ${key}` });
    }
    const upload = { method: 'POST', path: '/raw/new/x', query: [['uploads', '']] as const };
    const uploadId = elementOf((await send(alice, upload)).text, 'UploadId') ?? '';
    const { text } = await exchange(target, 'GET', '/.well-known/jwks.json');
    return new DelegationRig({
      target,
      alice,
      boss,
      uploadId,
      gatewayKid: JSON.parse(text).keys[0].kid,
    });
  }

  /** All that attacks could change of what Alice has. */
  async stateOfAlice(): Promise<unknown> {
    const ask = (path: string, name?: string, value = '') =>
      send(this.alice, { method: 'GET', path, query: name === undefined ? [] : [[name, value]] });
    const documents = [
      await ask('/raw'),
      await ask('/raw', 'uploads'),
      await ask('/raw/new/x', 'uploadId', this.uploadId),
      await ask('/raw', 'policy'),
    ].map(({ text }) => text.replace(/<(RequestId|HostId)>.*?<\/\1>/g, ''));
    const { storedBytes, storedObjects } = await callNative(
      this.boss,
      'GET',
      '/_/v1/usage/tenant:cms',
    );
    const cms = '/_/v1/tenants/cms';
    const lists = ['principals', 'grants', 'principals/alice/access-keys'];
    const others = lists.map((list) => callNative(this.boss, 'GET', `${cms}/${list}`));
    return [documents, storedBytes, storedObjects, ...(await Promise.all(others))];
  }

  /** A token of Alice's, made by herself, that the job can use and pass on. */
  issue(given: Partial<IssueRequest> = {}): string {
    const nowMs = Date.now();
    return issueToken({
      key: aliceKey,
      subject: 'cms/alice',
      audience: this.target.endpoint,
      scope: parseScope('storage.read:/raw/foo storage.create:/raw/new'),
      expiresAtMs: nowMs + hour,
      holder: jobKey.publicKey,
      nowMs,
      ...given,
    }).token;
  }

  /** One for whoever bears it. */
  open(given: Partial<IssueRequest> = {}): string {
    return this.issue({ holder: undefined, ...given });
  }

  /** A chain of three, of which the second narrows, and the third is for its bearer. */
  threeLinks(): [string, string, string] {
    const scope = parseScope('storage.read:/raw/foo');
    const second = shrink(this.issue(), { scope, holder: subJobKey.publicKey });
    return shrink(second, { key: subJobKey }).split('~') as [string, string, string];
  }

  /** Asks for what an honest holder may read, unless told otherwise. */
  bear(token: string, asked: Asked = {}): Promise<Answer> {
    const { method = 'GET', path = '/raw/foo/a', headers = {}, body } = asked;
    const all: Record<string, string> = { authorization: `Bearer ${token}`, ...headers };
    if (body !== undefined) all['content-length'] = String(body.length);
    return exchange(this.target, method, path, all, body);
  }

  /** The headers by which the job proves its key for a request. */
  prove(token: string, asked: Asked, more: Partial<ProofRequest> = {}): Record<string, string> {
    const { method = 'GET', path = '/raw/foo/a', headers = {}, body } = asked;
    const { endpoint } = this.target;
    const all: Record<string, string> = { host: new URL(endpoint).host, ...headers };
    const sha256 = body === undefined ? undefined : createHash('sha256').update(body).digest();
    const proof = createProof(
      { method, url: `${endpoint}${path}`, headers: all },
      { key: jobKey, token, nowMs: Date.now(), contentSha256: sha256, ...more },
    );
    return { ...all, ...proof };
  }

  /** A request with the proof of another. */
  misuse(proved: Asked, sent: Asked, more: Partial<ProofRequest> = {}): Promise<Answer> {
    const token = this.issue();
    const headers = { ...this.prove(token, proved, more), ...sent.headers };
    return this.bear(token, { ...sent, headers });
  }

  /** Asks STS for temporary keys. */
  trade(token: string, more: Record<string, string> = {}): Promise<Answer> {
    const form = new URLSearchParams({
      ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', RoleSessionName: 'attack' },
      ...{ RoleArn: 'arn:aws:iam::cms:role/any', WebIdentityToken: token, ...more },
    });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return exchange(this.target, 'POST', '/', headers, form.toString());
  }

  /** Reads with the temporary keys of an answer. */
  readWith(traded: Answer, path: string, sessionToken?: string): Promise<Answer> {
    const [accessKeyId = '', secretAccessKey = '', own = ''] = [
      ...['AccessKeyId', 'SecretAccessKey', 'SessionToken'],
    ].map((name) => elementOf(traded.text, name));
    const headers = { 'x-amz-security-token': sessionToken ?? own };
    const by = as(this.target, { accessKeyId, secretAccessKey });
    return send(by, { method: 'GET', path, headers });
  }
}

/** The token with one more link, of the job's. */
export function shrink(token: string, given: Partial<DelegateRequest> = {}): string {
  return delegate(token, { key: jobKey, nowMs: Date.now(), ...given }).token;
}

async function enrol(target: Target, principal: string, key: PrivateKey): Promise<void> {
  const [tenant, name] = principal.split('/');
  const asked = { audience: target.endpoint, principal, nowMs: Date.now() };
  const enrolment = { jwk: key.publicKey.jwk, proof: createKeyProof(key, asked) };
  const path = `/_/v1/tenants/${tenant}/principals/${name}/public-keys`;
  await callNative(target, 'POST', path, enrolment);
}

export type Attack = readonly [title: string, expected: string, attack: () => Promise<Answer>];

const documented = readFileSync('docs/users/errors.md', 'utf8');

/** Tries each: `expected` is the status, the code, and the reason where the code has one. */
export function describeAttacks(title: string, attacks: readonly Attack[]): void {
  describe(title, () => {
    it.each(attacks)('%s: %s', async (_title, expected, attack) => {
      const { status, text } = await attack();
      const isXml = text.startsWith('<');
      const code = isXml ? elementOf(text, 'Code') : JSON.parse(text).code;
      const reason = isXml ? elementOf(text, 'Reason') : undefined;
      expect([status, code, reason].filter((part) => part !== undefined).join(' ')).toBe(expected);
      expect([401, 403]).toContain(status);
      expect(documented).toContain(`| \`${code}\` | ${status} |`);
      expect(text).not.toContain('content of');
    });
  });
}
