// What browsers are told of stored objects. Everything that tenants store is served from the
// gateway's own origin, as are share pages and the native API; so a stored page that a browser runs
// must not be that origin's. Invariant: what a browser would run as a document says that it is to
// be sandboxed, whatever type its owner, or a presigned URL, gave it. docs/admin/origins.md;
// docs/decisions/0045-stored-pages.md.

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
