// A tenant of many principals on a served gateway, whose accounts are watched while they are used.
import type { ServedGateway } from '../../tooling/served-gateway.ts';
import { S3Client } from '../s3-client.ts';
import { type AccountRow, AccountSheet, findOverruns, type Meter } from './account-sheet.ts';
import { RecordSums } from './record-sums.ts';

export const tenant = 'lab';
export const buckets = ['raw', 'done', 'shared', 'spare'];

export type Limits = { [M in Meter]?: Record<string, string | number> };

interface Key {
  accessKeyId: string;
  secretAccessKey: string;
}

export class LimitedTenant {
  readonly #gatewayNow: () => ServedGateway;
  readonly sums = new RecordSums();
  readonly #keys: Key[] = [];
  readonly #limited = new Set<string>();

  /** `gatewayNow`: the one that serves. */
  constructor(gatewayNow: () => ServedGateway) {
    this.#gatewayNow = gatewayNow;
  }

  /** Makes the tenant, its principals, and buckets of the first of them. */
  async make(principals: number): Promise<void> {
    await this.call('POST', ['tenants'], { name: tenant });
    for (let i = 0; i < principals; i++) {
      const name = `robot${i}`;
      const path = ['tenants', tenant, 'principals'];
      await this.call('POST', path, { name, kind: 'robot', role: 'admin' });
      const key = await this.call('POST', [...path, name, 'access-keys']);
      this.#keys.push(key as unknown as Key);
    }
    const clients = this.clients();
    for (const [i, bucket] of buckets.entries()) {
      const { status, body } = await (clients[i] as S3Client).send('PUT', `/${bucket}`);
      if (status !== 200) throw new Error(`the bucket was answered ${status}: ${body}`);
    }
    for (const client of clients) client.close();
  }

  /** A client for a token of the principal of the number, which may do what it may. */
  async tokenClient(number: number, limits: Limits): Promise<S3Client> {
    const { endpoint } = this.#gatewayNow();
    const key = this.keyOf(number);
    const wanted = { scope: 'storage.read:/ storage.modify:/', expiresIn: 3600, limits };
    const { token } = await this.call('POST', ['tokens'], wanted, key);
    return new S3Client({ endpoint, ...key, token: String(token) });
  }

  /** Of the principal of the number. */
  keyOf(number: number): Key {
    return this.#keys[number] as Key;
  }

  /** One client for each principal. */
  clients(connectionsMax = 64): S3Client[] {
    const { endpoint } = this.#gatewayNow();
    return this.#keys.map((key) => new S3Client({ endpoint, ...key }, connectionsMax));
  }

  /** Sets limits; those set before and not named here are removed. */
  async limit(limits: Record<string, Limits>): Promise<void> {
    for (const account of this.#limited) {
      if (account in limits) continue;
      await this.call('DELETE', ['limits', account]);
      this.#limited.delete(account);
    }
    for (const [account, set] of Object.entries(limits)) {
      await this.call('PUT', ['limits', account], set);
      this.#limited.add(account);
    }
  }

  /**
   * A call of the native API, by the operator or with a key. Throws unless it was answered well.
   */
  async call(
    method: string,
    path: string[],
    body?: object,
    key?: Key,
  ): Promise<Record<string, unknown>> {
    const client = new S3Client({ ...this.#gatewayNow(), ...key });
    const sent = body && Buffer.from(JSON.stringify(body));
    const headers: Record<string, string> = sent ? { 'content-type': 'application/json' } : {};
    const encodedPath = `/_/v1/${path.map(encodeURIComponent).join('/')}`;
    const sending = { body: sent, headers, encodedPath };
    const answer = await client.send(method, `/_/v1/${path.join('/')}`, sending);
    client.close();
    if (answer.status >= 300)
      throw new Error(`${method} ${path.join(' ')}: ${answer.status} ${answer.body}`);
    return answer.body.length > 0 ? JSON.parse(answer.body.toString()) : {};
  }

  rows(): Promise<Map<string, AccountRow>> {
    return this.#look((sheet) => sheet.read());
  }

  /** What is stored, as `bucket/key`. */
  names(): Promise<Set<string>> {
    return this.#look((sheet) => sheet.names());
  }

  /** Differences between accounts and records, once nothing is under way any more. */
  async audit(): Promise<string[]> {
    let differing: string[] = [];
    // Reads are recorded within 50 ms, and what is set aside for nothing goes back in seconds.
    for (let tries = 0; tries < 60; tries++) {
      differing = await this.#compare(findLeases);
      if (differing.length === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return [...differing, ...this.sums.faults];
  }

  /** The same, as of now. */
  async auditNow(): Promise<string[]> {
    return [...(await this.#compare(() => [])), ...this.sums.faults.splice(0)];
  }

  #compare(more: (rows: Map<string, AccountRow>) => string[]): Promise<string[]> {
    return this.#look(async (sheet) => {
      const { rows, records } = await sheet.readWith(this.sums.lastIndex);
      this.sums.add(records);
      return [...this.sums.compare(rows), ...more(rows)];
    });
  }

  async #look<T>(use: (sheet: AccountSheet) => Promise<T>): Promise<T> {
    const sheet = new AccountSheet(this.#gatewayNow().dataDir);
    try {
      return await use(sheet);
    } finally {
      sheet.close();
    }
  }
}

/** Picodollars as decimal USD. */
export function toUsd(amount: bigint): string {
  const text = String(amount).padStart(13, '0');
  return `${text.slice(0, -12)}.${text.slice(-12)}`;
}

function findLeases(rows: Map<string, AccountRow>): string[] {
  return [...rows].flatMap(([account, { leased }]) =>
    Object.entries(leased)
      .filter(([, amount]) => amount !== 0n)
      .map(([meter, amount]) => `${account}: ${amount} ${meter} are still set aside`),
  );
}

/** Looks at all accounts again and again while `use` lasts; gives what it found. */
export async function watchAccounts(
  dataDir: string,
  use: () => Promise<void>,
): Promise<{ looks: number; overruns: string[] }> {
  const sheet = new AccountSheet(dataDir);
  const overruns: string[] = [];
  let looks = 0;
  let isUsed = true;
  const watch = async (): Promise<void> => {
    while (isUsed) {
      overruns.push(...findOverruns(await sheet.read()));
      looks++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const watching = watch();
  try {
    await use();
  } finally {
    isUsed = false;
    await watching;
    sheet.close();
  }
  return { looks, overruns };
}
