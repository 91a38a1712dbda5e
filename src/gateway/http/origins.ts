// What browsers are told of stored objects. Everything that tenants store is served from the
// gateway's own origin, as are share pages and the native API; so a stored page that a browser runs
// must not be that origin's. Invariant: what a browser would run as a document says that it is to
// be sandboxed, whatever type its owner, or a presigned URL, gave it. docs/admin/origins.md;
// docs/decisions/0045-stored-pages.md.
import type { IncomingMessage } from 'node:http';
import { Refusal } from '../../core/errors.ts';

/** What becomes of stored pages: they run in an origin of their own, or in the gateway's. */
export const storedPagesChoices = ['sandbox', 'same-origin'] as const;
export type StoredPages = (typeof storedPagesChoices)[number];

/** HTML and all kinds of XML, SVG for instance; and parts that come one after the other. */
const documentType = /html|xml|mixed-replace/i;

/**
 * Scripts run, without this origin: storage, cookies, other windows and service workers are out.
 */
const sandbox =
  'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts ' +
  'allow-top-navigation-by-user-activation';

/** Adds what browsers must know of an object; `headers` has its type already. */
export function describeToBrowsers(
  headers: Record<string, string>,
  { storedPages, isPresigned }: { storedPages: StoredPages; isPresigned: boolean },
): void {
  const type = headers['content-type'];
  if (storedPages === 'sandbox' && type !== undefined && documentType.test(type)) {
    headers['content-security-policy'] = sandbox;
  }
  // Whoever has the URL can use it, so pages that it leads to are not told it.
  if (isPresigned) headers['referrer-policy'] = 'no-referrer';
}

/**
 * Why a request is none that is answered; null: it is. A service worker would see all that its
 * origin is asked for, presigned URLs of others too. Browsers mark the request for its script,
 * which pages cannot leave out: Service Workers, section "Update".
 */
export function refuseServiceWorker({ headers }: IncomingMessage): Refusal | null {
  const { 'service-worker': mark, 'sec-fetch-dest': destination } = headers;
  if (mark === undefined && destination !== 'serviceworker') return null;
  const message = 'Scripts of service workers are not served.';
  return new Refusal('AccessDenied', { message });
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
