// PublicAccessBlock: a bucket's safeguards against being opened to everybody. What is public is
// said in one place, `isPublic` of authz/grants/policy.ts, and whom it shuts out in
// authz/grants/decide.ts.
// Specification: "Blocking public access to your Amazon S3 storage" of the Amazon S3 user guide.
import type { Bucket, PublicAccessBlock } from '../../../catalog/buckets.ts';
import { Refusal } from '../../../core/errors.ts';
import type { Principal } from '../../../core/principal.ts';
import { onlyChildren, parseXml, type XmlElements, type XmlNode } from '../../http/xml.ts';

/** In the order in which S3 shows them. */
const members = [
  ['BlockPublicAcls', 'blockPublicAcls'],
  ['IgnorePublicAcls', 'ignorePublicAcls'],
  ['BlockPublicPolicy', 'blockPublicPolicy'],
  ['RestrictPublicBuckets', 'restrictPublicBuckets'],
] as const;

/** What a new bucket has, as on AWS since 2023. */
export const everythingBlocked: PublicAccessBlock = {
  blockPublicAcls: true,
  ignorePublicAcls: true,
  blockPublicPolicy: true,
  restrictPublicBuckets: true,
};

/** What is not said is false. Throws `Refusal` MalformedXML. */
export function parsePublicAccess(body: Buffer): PublicAccessBlock {
  const root = parseXml(body, 'PublicAccessBlockConfiguration');
  const nodes = onlyChildren(
    root,
    members.map(([element]) => element),
  );
  const block = {} as PublicAccessBlock;
  for (const [i, [, member]] of members.entries()) block[member] = parseTruth(nodes[i]);
  return block;
}

function parseTruth(node: XmlNode | undefined): boolean {
  const text = node?.text.trim().toLowerCase() ?? 'false';
  if (text === 'true' || text === 'false') return text === 'true';
  throw new Refusal('MalformedXML');
}

/** null: the bucket has none. */
export function blockOf({ publicAccess }: Pick<Bucket, 'publicAccess'>): PublicAccessBlock | null {
  const { acl: _, requesterPays: _2, tenantPays: _3, ...block } = publicAccess ?? {};
  return block.blockPublicAcls === undefined ? null : (block as PublicAccessBlock);
}

export function publicAccessElements(block: PublicAccessBlock): XmlElements {
  return Object.fromEntries(members.map(([element, member]) => [element, block[member]]));
}

/**
 * Does what lets everybody in not let in who asks? Tokens, share links and presigned URLs act in
 * the name of who made them, and are no way in for everybody. null: without credentials.
 */
export function isShutOut(bucket: Bucket | undefined, who: Principal | null): boolean {
  if (!bucket?.publicAccess?.restrictPublicBuckets) return false;
  return who === null || who.tenant !== bucket.tenant;
}
