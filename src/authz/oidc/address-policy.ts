// Which addresses the gateway asks for an issuer's documents, or tells alarms to. Tenants' admins
// choose the URLs, so these must not lead into the network that the gateway is in, or to other
// programs on its machine, but where the operator named the host. Invariant: the address that is
// checked is the one that is connected to, since the name is resolved here, once.
// Specification: the IANA registries of special-purpose IPv4 and IPv6 addresses.
import { promises as dns, type LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

export interface AddressPolicy {
  /** Whether the host of this URL may be in a private network, or on this machine. */
  allowsPrivate(url: URL): boolean;
}

/** The policy for URLs that operators choose. */
export const everywhere: AddressPolicy = { allowsPrivate: () => true };

/** A host that an operator named: `sso.example.org:8443`. */
export interface PrivateHost {
  /** In the form of `URL.hostname`. */
  name: string;
  /** null: every port. */
  port: number | null;
}

/** Private addresses of these hosts alone. */
export function onlyPrivate(hosts: readonly PrivateHost[]): AddressPolicy {
  return {
    allowsPrivate: ({ protocol, hostname, port }) => {
      const asked = port === '' ? defaultPorts[protocol] : Number(port);
      return hosts.some((host) => {
        return host.name === hostname && (host.port === null || host.port === asked);
      });
    },
  };
}

const defaultPorts: Record<string, number> = { 'http:': 80, 'https:': 443 };

/**
 * `NAME`, for the port of https, `NAME:PORT`, or `NAME:*`; an IPv6 address in brackets. Undefined
 * for another text.
 */
export function parsePrivateHost(text: string): PrivateHost | undefined {
  const [, name = '', port] =
    /^([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(\*|\d{1,5}))?$/i.exec(text) ?? [];
  const url = `https://${name}`;
  if (name === '' || !URL.canParse(url)) return undefined;
  const { hostname } = new URL(url);
  if (port === '*') return { name: hostname, port: null };
  const number = port === undefined ? 443 : Number(port);
  return number >= 1 && number <= 65_535 ? { name: hostname, port: number } : undefined;
}

// An IPv4 network of a list has its addresses in IPv6's notation as well (::ffff:10.0.0.1).
/** Of addresses that are nobody's, everybody's, or the link's: there, clouds keep their secrets. */
const never = subnets(
  ...['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/128', 'fe80::/10', 'ff00::/8'],
);
const loopback = subnets('127.0.0.0/8', '::1/128');
const special = subnets(
  ...['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.0.0.0/24', '192.0.2.0/24'],
  ...['192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
);
const global6 = subnets('2000::/3');

function subnets(...texts: string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address = '', bits] = text.split('/');
    list.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Whether the gateway may connect to this address. False for what is no address. */
export function allowsAddress(address: string, isPrivateAllowed: boolean): boolean {
  const version = isIP(address);
  if (version === 0) return false;
  const family = version === 4 ? 'ipv4' : 'ipv6';
  if (never.check(address, family)) return false;
  const isPublic =
    !loopback.check(address, family) &&
    !special.check(address, family) &&
    (version === 4 || global6.check(address, family));
  return isPublic || isPrivateAllowed;
}

/** Whether the address, or the name `localhost`, means this machine and no other. */
export function isLoopbackAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 0) return address === 'localhost';
  return loopback.check(address, version === 4 ? 'ipv4' : 'ipv6');
}

const askMs = 2000;

/**
 * Resolves names for `http.request`, and fails where an address is not allowed. By DNS alone: the
 * system's own resolver takes a thread from the disk's pool for as long as a name server is silent.
 */
export function guardedLookup(isPrivateAllowed: boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolveName(hostname).then(
      (addresses) => {
        const refused = addresses.find(({ address }) => !allowsAddress(address, isPrivateAllowed));
        const [first] = addresses;
        if (refused) callback(new AddressRefused(hostname), '');
        else if (!first) callback(new Error(`${hostname} has no address`), '');
        else if (options.all) callback(null, addresses);
        else callback(null, first.address, first.family);
      },
      (error) => callback(error, ''),
    );
  };
}

/**
 * Its message is for the operator's log: tenants must not learn the names and addresses of a
 * private network.
 */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';

  constructor(hostname: string) {
    super(`${hostname} is at an address that is not a public one`);
  }
}

async function resolveName(hostname: string): Promise<LookupAddress[]> {
  if (hostname === 'localhost') {
    return [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ];
  }
  const resolver = new dns.Resolver({ timeout: askMs, tries: 1 });
  const [four, six] = await Promise.allSettled([
    resolver.resolve4(hostname),
    resolver.resolve6(hostname),
  ]);
  if (four.status === 'rejected' && six.status === 'rejected') throw four.reason;
  const found = (answer: PromiseSettledResult<string[]>, family: number) =>
    answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
  return [...found(four, 4), ...found(six, 6)];
}
