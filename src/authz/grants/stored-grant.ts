// A grant as it is kept in memory: four numbers of shared parts, and its name and prefix.
// Invariant: what is read back is the rule that `compileGrant` makes of the grant.
//
//   u32 subjects | u32 actions | u32 place | u32 conditions | u8 n | u16 m | n name | m prefix
import type { ActionSet } from './actions.ts';
import type { Condition } from './conditions.ts';
import { type Grant, grantParts } from './grant.ts';
import type { Effect, PlaceResource, Rule, Subjects } from './rule.ts';
import type { SharedParts } from './shared-parts.ts';

const partOffsets = [0, 4, 8, 12] as const;
const nameOffset = 19;

/** The bytes of a grant. They hold their parts until `releaseParts`. */
export function writeGrant(tenant: string, grant: Grant, parts: SharedParts): Buffer {
  const { name } = grant;
  const prefix = grant.key ?? grant.prefix ?? '';
  const prefixBytes = Buffer.byteLength(prefix);
  const bytes = Buffer.allocUnsafe(nameOffset + name.length + prefixBytes);
  const { subjects, actions, place, conditions } = grantParts(tenant, grant);
  for (const [i, part] of [subjects, actions, place, conditions].entries()) {
    bytes.writeUInt32LE(parts.hold(part), 4 * i);
  }
  bytes.writeUInt8(name.length, 16);
  bytes.writeUInt16LE(prefixBytes, 17);
  bytes.write(name, nameOffset, 'latin1');
  bytes.write(prefix, nameOffset + name.length);
  return bytes;
}

/** For a second copy of the bytes. */
export function holdParts(bytes: Buffer, parts: SharedParts): void {
  for (const offset of partOffsets) parts.holdAgain(bytes.readUInt32LE(offset));
}

export function releaseParts(bytes: Buffer, at: number, parts: SharedParts): void {
  for (const offset of partOffsets) parts.release(bytes.readUInt32LE(at + offset));
}

/** Reads only what is asked for: most grants that are looked at are not the one. */
export class StoredGrant implements Rule {
  readonly source = 'grant';
  readonly #bytes: Buffer;
  readonly #at: number;
  readonly #parts: SharedParts;

  constructor(bytes: Buffer, at: number, parts: SharedParts) {
    this.#bytes = bytes;
    this.#at = at;
    this.#parts = parts;
  }

  get name(): string {
    return this.#bytes.toString('latin1', this.#nameAt, this.#prefixAt);
  }

  get subjects(): Subjects {
    return this.#part(0) as Subjects;
  }

  get effect(): Effect {
    return (this.#part(4) as { effect: Effect }).effect;
  }

  get actions(): ActionSet {
    return (this.#part(4) as { actions: ActionSet }).actions;
  }

  get resource(): PlaceResource {
    const { form, tenant, bucket } = this.#part(8) as PlaceResource;
    const end = this.#prefixAt + this.#bytes.readUInt16LE(this.#at + 17);
    return { form, tenant, bucket, prefix: this.#bytes.toString('utf8', this.#prefixAt, end) };
  }

  get conditions(): readonly Condition[] {
    return this.#part(12) as readonly Condition[];
  }

  get #nameAt(): number {
    return this.#at + nameOffset;
  }

  get #prefixAt(): number {
    return this.#nameAt + this.#bytes.readUInt8(this.#at + 16);
  }

  #part(offset: number): unknown {
    return this.#parts.get(this.#bytes.readUInt32LE(this.#at + offset));
  }
}
