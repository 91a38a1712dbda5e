// Conditions of a token: from which networks, into which storage classes, and up to which object
// size. Invariant: every link's conditions hold at once, so a link can add some and lift none; a
// condition that is not known is refused, never skipped.
import { BlockList, isIP } from 'node:net';
import { classesMax, nameLengthMax, networksMax } from './bounds.ts';
import { isObject, otherMember } from './strict-json.ts';

/** The `conditions` claim of one link. At least one member is there. */
export interface Conditions {
  /** CIDR networks (or single addresses), one of which must have the client's address. */
  networks?: readonly string[];
  /** Storage classes that a write may name. */
  classes?: readonly string[];
  /** Bytes of the largest object that may be written. */
  objectBytesMax?: number;
}

const names = ['networks', 'classes', 'objectBytesMax'] as const;

/** Reads the claim; undefined when it has another form. */
export function readConditions(value: unknown): Conditions | undefined {
  if (!isObject(value) || otherMember(value, names) || Object.keys(value).length === 0) {
    return undefined;
  }
  const { networks, classes, objectBytesMax } = value;
  if (networks !== undefined && !isList(networks, networksMax, isNetwork)) return undefined;
  if (classes !== undefined && !isList(classes, classesMax, isClassName)) return undefined;
  if (objectBytesMax !== undefined && !isCount(objectBytesMax)) return undefined;
  return value as Conditions;
}

function isList(value: unknown, lengthMax: number, fits: (text: string) => boolean): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > lengthMax) return false;
  return value.every((one) => typeof one === 'string' && fits(one));
}

function isClassName(text: string): boolean {
  return text.length <= nameLengthMax && /^[A-Za-z0-9_-]+$/.test(text);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isNetwork(text: string): boolean {
  return parseNetwork(text) !== undefined;
}

export interface Network {
  address: string;
  bits: number;
  family: 'ipv4' | 'ipv6';
}

/** A CIDR block or an address; undefined for any other text. */
export function parseNetwork(text: string): Network | undefined {
  const [address = '', bitsText, ...rest] = text.split('/', 3);
  const version = isIP(address);
  if (version === 0 || rest.length > 0 || address.includes('%')) return undefined;
  const bitsMax = version === 4 ? 32 : 128;
  if (bitsText !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(bitsText)) return undefined;
  const bits = bitsText === undefined ? bitsMax : Number(bitsText);
  return bits > bitsMax ? undefined : { address, bits, family: version === 4 ? 'ipv4' : 'ipv6' };
}

/** The conditions of all links of a chain, ready to be asked at each request. */
export class ChainConditions {
  /** The conditions of each link. */
  readonly all: readonly Conditions[];
  readonly #networks: readonly BlockList[];
  readonly #classes: readonly (readonly string[])[];
  /** Bytes of the largest object that may be written. */
  readonly objectBytesMax: number;

  constructor(conditions: readonly Conditions[]) {
    this.all = conditions;
    this.#networks = conditions.flatMap(({ networks }) => (networks ? [listOf(networks)] : []));
    this.#classes = conditions.flatMap(({ classes }) => (classes ? [classes] : []));
    const sizes = conditions.map(
      ({ objectBytesMax }) => objectBytesMax ?? Number.POSITIVE_INFINITY,
    );
    this.objectBytesMax = Math.min(...sizes);
  }

  /** Whether a client at this address (as Node gives it) may use the token. */
  allowSource(address: string): boolean {
    if (this.#networks.length === 0) return true;
    // A socket for both families shows IPv4 clients as ::ffff:192.0.2.1.
    const plain = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
    const version = isIP(plain);
    if (version === 0) return false;
    const family = version === 4 ? 'ipv4' : 'ipv6';
    return this.#networks.every((list) => list.check(plain, family));
  }

  allowClass(name: string): boolean {
    return this.#classes.every((classes) => classes.includes(name));
  }

  allowSize(sizeBytes: number): boolean {
    return sizeBytes <= this.objectBytesMax;
  }
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of networks) {
    const network = parseNetwork(text);
    if (network) list.addSubnet(network.address, network.bits, network.family);
  }
  return list;
}
