// Which addresses are one client's: an IPv4 address, and of IPv6 the /64 that a site or a host is
// given and chooses from as it likes (RFC 4291 section 2.5.4, RFC 6177).
import { isIPv6 } from 'node:net';

const groupsOfNetwork = 4;
const groupsOfAddress = 8;

/** A name for all addresses that count as one; of what is no IPv6 address, itself. */
export function addressGroupOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [before = '', after] = address.split('%', 1)[0]?.split('::') ?? [];
  const groups = groupsIn(before);
  if (after !== undefined) {
    const last = groupsIn(after);
    while (groups.length + last.length < groupsOfAddress) groups.push('0');
    groups.push(...last);
  }
  const network = groups.slice(0, groupsOfNetwork).map((group) => Number.parseInt(group, 16));
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}

/** An IPv4 address at the end is two groups. */
function groupsIn(text: string): string[] {
  const groups = text === '' ? [] : text.split(':');
  if (!groups.at(-1)?.includes('.')) return groups;
  return [...groups.slice(0, -1), '0', '0'];
}
