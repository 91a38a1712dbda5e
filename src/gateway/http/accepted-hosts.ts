// Which host names the gateway answers for, and which of them is for share links alone. Invariant:
// what a request proves of its sender, by a signature or by the proof of a key, it proves for a
// host that is the gateway's own. A name of somebody else's, which leads people to a server that
// hands their requests on, is none.
// Specification: RFC 9110 sections 4.2.2 and 15.5.20 (421 Misdirected Request), RFC 9112 section
// 3.2; docs/decisions/0043-accepted-hosts.md.
import { plainAddress } from '../../authz/grants/networks.ts';
import { isLoopbackAddress } from '../../authz/oidc/address-policy.ts';

export interface HostNames {
  /**
   * What the gateway listens on: a name or an address; `0.0.0.0` or `::` are all of the machine's.
   */
  listenHost: string;
  /** As clients reach it; read when the first request comes. */
  publicUrl: () => string;
  /** Bases of virtual-host-style names. */
  domains: readonly string[];
  /** More names, in lower case; `*.example.org` stands for all below `example.org`. */
  acceptHosts: readonly string[];
}

/** Names by which only this machine is reached. */
const loopbackNames = ['localhost', '127.0.0.1', '::1'];

const allAddresses = new Set(['0.0.0.0', '::', '']);

/** A host with or without a port: RFC 3986 section 3.2.2, without what no server's name has. */
const form = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::\d{1,5})?$/;

/** As many spellings are remembered; bucket names in hosts make more of them. */
const keptMax = 1000;

export class AcceptedHosts {
  readonly #given: HostNames;
  #names: ReadonlySet<string> | null = null;
  readonly #bases: readonly string[];
  /** Headers that were accepted, whatever address their connection came to. */
  readonly #kept = new Set<string>();

  constructor(given: HostNames) {
    this.#given = given;
    const wildcards = given.acceptHosts.filter((name) => name.startsWith('*.'));
    this.#bases = [
      ...given.domains.map((domain) => `.${domain}`),
      ...wildcards.map((name) => name.slice(1)),
    ];
  }

  /**
   * `header`: the value of `Host`; `localAddress`: the address that the connection came to, by
   * which the gateway may be called too. Ports are not compared: they are forwarded and mapped.
   */
  accepts(header: string, localAddress: string | undefined): boolean {
    if (this.#kept.has(header)) return true;
    const [, address, plainName] = form.exec(header) ?? [];
    const name = (address ?? plainName)?.toLowerCase();
    if (name === undefined) return false;
    if (this.#isNamed(name)) {
      if (this.#kept.size === keptMax) this.#kept.clear();
      this.#kept.add(header);
      return true;
    }
    const asked = plainAddress(name);
    return asked !== undefined && asked === plainAddress(localAddress ?? '');
  }

  #isNamed(name: string): boolean {
    this.#names ??= this.#readNames();
    if (this.#names.has(name)) return true;
    return this.#bases.some((base) => name.length > base.length && name.endsWith(base));
  }

  #readNames(): ReadonlySet<string> {
    const { listenHost, publicUrl, domains, acceptHosts } = this.#given;
    const listens = listenHost.toLowerCase();
    const isLocal =
      allAddresses.has(listens) || listens === 'localhost' || isLoopbackAddress(listens);
    return new Set([
      ...(isLocal ? loopbackNames : []),
      ...(allAddresses.has(listens) ? [] : [listens]),
      // An address in a URL has brackets, and is compared without them.
      new URL(publicUrl()).hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1'),
      ...domains,
      ...acceptHosts,
    ]);
  }
}

/** The host that share links have for themselves, if they have one: `--share-url`. */
export class ShareHost {
  readonly #urls: { publicUrl: () => string; shareUrl: () => string };
  #name: string | undefined;

  constructor(urls: { publicUrl: () => string; shareUrl: () => string }) {
    this.#urls = urls;
  }

  /** `header`: the value of `Host`. Ports are not compared: they are forwarded and mapped. */
  is(header: string | undefined): boolean {
    this.#name ??= this.#readName();
    if (this.#name === '' || header === undefined) return false;
    return header.toLowerCase().replace(/:\d*$/, '') === this.#name;
  }

  /** '': it is the host of everything else, too. */
  #readName(): string {
    const [share, other] = [this.#urls.shareUrl(), this.#urls.publicUrl()].map(
      (url) => new URL(url).hostname,
    );
    return share === undefined || share === other ? '' : share;
  }
}
