// Whose a store's prefix is: an object `owner` beside the extents names the data folder that writes
// and sweeps there. Invariant: two data folders never both take a prefix for theirs, since each
// would leave the other's extents without a catalog, or remove them. The marker is sealed under the
// gateway's keys: nobody without them can make one, or tell one as theirs.
// Its form: {"version":1,"instance":hex 32,"store":number,"since":time,"seal":base64}, where the
// seal is an empty text sealed (core/sealing) in the context of the others.
import type { Sealer } from '../../core/sealing.ts';
import type { RemoteStore } from './store.ts';

export const ownerName = 'owner';
const markerBytesMax = 4096;

/** A data folder's claim to a store. */
export interface Claim {
  /** The instance of the data folder. */
  instance: string;
  /** The store's number in it. */
  store: number;
}

/**
 * `otherStore`: this data folder's, but as another of its stores. `former`: a data folder that had
 * the same keys. `foreign`: anything else, a damaged marker among it.
 */
export type Owner = 'nobody' | 'us' | 'otherStore' | 'former' | 'foreign';

type Objects = Pick<RemoteStore, 'getObject' | 'putObject'>;

/** Returns who owns the prefix. Throws `Refusal` when the store cannot say. */
export async function findOwner(store: Objects, sealer: Sealer, claim: Claim): Promise<Owner> {
  const found = await findClaim(store, sealer);
  if (typeof found === 'string') return found;
  if (found.instance !== claim.instance) return 'former';
  return found.store === claim.store ? 'us' : 'otherStore';
}

/**
 * The claim of a data folder with our keys, whichever it is; `foreign`: it is not ours, or damaged.
 * Throws `Refusal` when the store cannot say.
 */
export async function findClaim(
  store: Objects,
  sealer: Sealer,
): Promise<Claim | 'nobody' | 'foreign'> {
  const bytes = await store.getObject(ownerName);
  if (!bytes) return 'nobody';
  let marker = readMarker(bytes, sealer);
  if (!marker) {
    // It may have been damaged on its way.
    const again = await store.getObject(ownerName);
    marker = again && readMarker(again, sealer);
  }
  return marker ?? 'foreign';
}

/**
 * Claims the prefix if it is nobody's, or, with `takeOver`, whoever's it is; gives whose it is
 * then.
 */
export async function claimStore(
  store: Objects,
  sealer: Sealer,
  claim: Claim,
  options: { takeOver?: boolean } = {},
): Promise<Owner> {
  const { takeOver = false } = options;
  await store.putObject(ownerName, makeMarker(sealer, claim), { ifAbsent: !takeOver });
  // A store that ignores the condition answers the same to all who claim at once: the last one won.
  return findOwner(store, sealer, claim);
}

interface Marker extends Claim {
  since: string;
}

function makeMarker(sealer: Sealer, claim: Claim): Buffer {
  const marker: Marker = { ...claim, since: new Date().toISOString() };
  const seal = sealer.seal(Buffer.alloc(0), contextOf(marker)).toString('base64');
  return Buffer.from(`${JSON.stringify({ version: 1, ...marker, seal })}\n`);
}

/** Undefined: it was not made with our keys. */
function readMarker(bytes: Buffer, sealer: Sealer): Marker | undefined {
  if (bytes.length > markerBytesMax) return undefined;
  try {
    const { version, instance, store, since, seal } = JSON.parse(bytes.toString('utf8'));
    const marker: Marker = { instance, store, since };
    sealer.open(Buffer.from(seal, 'base64'), contextOf(marker));
    return version === 1 ? marker : undefined;
  } catch {
    return undefined;
  }
}

function contextOf({ instance, store, since }: Marker): string {
  return `store-owner:${JSON.stringify([instance, store, since])}`;
}
