// Lost extents are written again, of an upload that has the same bytes (s3/objects/
// remade-version.ts). Invariants: under the key of a lost extent nothing but its own bytes is
// sealed, which the SHA-256 of the object proves; an extent that is whole somewhere is left as it
// is; one extent is in memory at a time; and the object was read whole, from where readers read it,
// before anybody calls it whole.
import type { Bucket } from '../catalog/buckets.ts';
import { isInUse, listCopyStores } from '../catalog/extent-copies.ts';
import type { Version } from '../catalog/versions.ts';
import { IntegrityError, Refusal } from '../core/errors.ts';
import { decodeManifest, type ExtentRun, localStore, sliceRuns } from '../core/manifest.ts';
import { writeWithRoom } from '../quota/disk-room.ts';
import type { WrittenObject } from '../tiering/object-writer.ts';
import { readStored, readVerified, sealAgain } from '../tiering/stored-extent.ts';
import type { LegStore } from '../tiering/stores/store.ts';
import type { LossServices } from './losses.ts';
import type { RequestServices } from './services.ts';

export interface RemakeServices extends Omit<LossServices, 'stores'> {
  stores: { leg(number: number): LegStore };
  journals: Pick<RequestServices['journals'], 'owned'>;
  copyMemory: RequestServices['copyMemory'];
  diskRoom: RequestServices['diskRoom'];
}

export interface Remake {
  bucket: Pick<Bucket, 'id' | 'tenant' | 'name'>;
  /** The lost version. */
  version: Version;
  /** The same bytes in extents of their own. */
  written: WrittenObject;
  requester: string;
}

export class Remakes {
  readonly #services: RemakeServices;

  constructor(services: RemakeServices) {
    this.#services = services;
  }

  /** Rejects with `Refusal` ServiceUnavailable, SlowDown or InvalidRequest where it cannot. */
  async writeAgain({ bucket, version, written, requester }: Remake): Promise<void> {
    const { leases, copyMemory } = this.#services;
    const runs = decodeManifest(version.manifest);
    const release = leases.hold([...runs, ...written.runs]);
    const bytes = 2 * Math.max(...runs.map(({ extentBytes }) => extentBytes));
    const memory = await copyMemory.hold({ tenant: bucket.tenant, principal: requester, bytes });
    try {
      const place = { ...{ tenant: bucket.tenant, bucket: bucket.name, bucketId: bucket.id } };
      for (const { run, at } of wholeExtents(runs)) {
        const again = { run, place: { ...place, key: version.key } };
        const from = sliceRuns(written.runs, at, at + run.length);
        await this.#writeExtent({ tenant: bucket.tenant, principal: requester }, again, {
          runs: from,
          inline: written.inline,
        });
      }
    } catch (error) {
      if (error instanceof Refusal) throw error;
      const message = 'What was lost could not be written again. Try again.';
      throw new Refusal('ServiceUnavailable', { message, cause: error });
    } finally {
      memory.close();
      release();
    }
  }

  async #writeExtent(
    { tenant, principal }: { tenant: string; principal: string },
    { run, place }: { run: ExtentRun; place: Parameters<typeof sealAgain>[1]['place'] },
    from: Pick<WrittenObject, 'runs' | 'inline'>,
  ): Promise<void> {
    const { read, stores, journals, keyring, diskRoom } = this.#services;
    // The sweeper spares it from here on, unless it had it already.
    if (!(await isInUse(read, run.id))) throw new Refusal('SlowDown');
    const wanting: number[] = [];
    for (const store of new Set([run.store, ...(await listCopyStores(read, run.id))])) {
      if (!(await isWhole(stores.leg(store), keyring, run.id))) wanting.push(store);
    }
    if (wanting.length === 0) return;
    const plain = await this.#readPlain(tenant, from, run.length);
    const stored = await sealAgain({ keyring, tenant }, { run, plain, place });
    for (const number of wanting) {
      const store = stores.leg(number);
      // Another may have done it meanwhile.
      if (await isWhole(store, keyring, run.id)) continue;
      await journals.owned(number);
      // There may be what is false.
      const bytes = number === localStore ? stored.length : 0;
      const write = () => store.replace(run.id, [stored]);
      await writeWithRoom(diskRoom, { tenant, principal, bytes }, write);
      if (!(await readStored(store, run.id)).equals(stored)) {
        throw new Error(`store ${number} does not give back extent ${run.id.toString('hex')}`);
      }
      await journals.owned(number);
    }
  }

  async #readPlain(
    tenant: string,
    { runs, inline }: Pick<WrittenObject, 'runs' | 'inline'>,
    bytes: number,
  ): Promise<Buffer> {
    const plain = Buffer.allocUnsafe(bytes);
    let filled = 0;
    // Of a small upload the bytes are in no store: they were to go with its row.
    const inlineBody = async () => Uint8Array.from(inline?.body ?? []);
    for await (const piece of this.#services.reader.read({ tenant, runs, inlineBody })) {
      filled += piece.copy(plain, filled);
    }
    return plain;
  }
}

/** Each extent once, with where its bytes are in the object. Throws `Refusal` InvalidRequest. */
function wholeExtents(runs: readonly ExtentRun[]): { run: ExtentRun; at: number }[] {
  const found = new Map<string, { run: ExtentRun; at: number }>();
  let at = 0;
  for (const run of runs) {
    if (run.offset > 0 || run.length < run.extentBytes) {
      const message =
        'The lost object has only a part of an extent, as of a copied range, and nobody knows ' +
        'the rest.';
      throw new Refusal('InvalidRequest', { message });
    }
    found.set(run.id.toString('hex'), { run, at });
    at += run.length;
  }
  return [...found.values()];
}

async function isWhole(
  store: LegStore,
  keyring: LossServices['keyring'],
  id: Buffer,
): Promise<boolean> {
  try {
    await readVerified(store, keyring, id);
    return true;
  } catch (error) {
    if (error instanceof IntegrityError) return false;
    throw error;
  }
}
