// Networks in conditions: CIDR blocks and single addresses, IPv4 and IPv6. Invariant: an IPv4
// client is the same client whether its address came plain or mapped into IPv6.
import { BlockList, isIP } from 'node:net';
import type { Network } from '../tokens/conditions.ts';

export { type Network, parseNetwork } from '../tokens/conditions.ts';

/** Is an address, in the form of `plainAddress`, in one of these networks? */
export function networkTest(networks: readonly Network[]): (address: string) => boolean {
  const list = new BlockList();
  for (const { address, bits, family } of networks) list.addSubnet(address, bits, family);
  return (address) => {
    const version = isIP(address);
    return version !== 0 && list.check(address, version === 4 ? 'ipv4' : 'ipv6');
  };
}

const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** The address of a socket without the IPv6 dress of an IPv4 client; undefined if it is none. */
export function plainAddress(address: string): string | undefined {
  const plain = mapped.exec(address)?.[1] ?? address;
  return isIP(plain) === 0 ? undefined : plain;
}

/**
 * A network so wide that naming it narrows nothing: shorter than /8, or /32 for IPv6 ("The meaning
 * of public" in the Amazon S3 user guide).
 */
export function isWide({ bits, family }: Network): boolean {
  return bits < (family === 'ipv4' ? 8 : 32);
}
