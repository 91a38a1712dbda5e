// How browsers come to a bucket that is a website. Invariants: whoever asks is nobody, and is given
// what everybody may read, decided key by key as any read is; nothing of a request but its method,
// path, range and conditions has a meaning; and a bucket that is no website is as one that is not
// there, to who may not list it.
// Specification: "Hosting a static website using Amazon S3" of the Amazon S3 user guide.
import type { Authenticator } from '../../authz/authenticate.ts';
import { anonymousIn } from '../../authz/identity.ts';
import { findCurrent, type Version } from '../../catalog/versions.ts';
import {
  findRule,
  type Redirect,
  type RoutingRule,
  ruledKey,
  type ServedSite,
  type Website,
} from '../../catalog/website.ts';
import { percentEncode } from '../../core/canonical-request.ts';
import { Refusal } from '../../core/errors.ts';
import { defaultTenant } from '../../core/principal.ts';
import { tellOrigin } from '../http/cross-origin.ts';
import type { Reply } from '../http/reply.ts';
import { redirectOf } from '../s3/objects/object-attributes.ts';
import type { AnyOperation, Operation } from '../s3/operation.ts';
import { getObject, headObject } from '../s3/operations/get-object.ts';
import type { Entrance } from '../s3/pipeline.ts';
import { bucketOfHost, parseRequest, type S3Request } from '../s3/request.ts';
import type { Asked, Reserved } from '../s3/stages.ts';
import type { RequestServices } from '../services.ts';
import { describeInPage, UntoldRefusal } from './website-page.ts';

export function websiteEntrance(services: RequestServices, authenticator: Authenticator): Entrance {
  return {
    enter: async (exchange) => {
      const { raw, response, clock } = exchange;
      const sent = parseRequest(raw, exchange, services.domains);
      clock.enter('authenticate');
      // The domain itself is no bucket's.
      if (bucketOfHost(sent.headers.host ?? '', services.domains) === null) {
        throw new Refusal('NotFound');
      }
      const request = readable(sent);
      await tellOrigin(services, authenticator, { request: sent, response, tenant: null });
      const who = anonymousIn(defaultTenant);
      return { request, who, refused: null, findOperation, renew: async () => who };
    },
    describeRefusal: describeInPage,
  };
}

const kept: readonly string[] = ['host', 'user-agent', 'referer'];
const conditions: readonly string[] = [
  ...['range', 'if-range'],
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'],
];

/** What of the request has a meaning. */
function readable(sent: S3Request): S3Request {
  return { ...sent, query: [], rawHeaders: [], headers: only(sent, [...kept, ...conditions]) };
}

function only({ headers }: S3Request, names: readonly string[]): S3Request['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)));
}

function findOperation({ method }: S3Request): AnyOperation {
  if (method === 'GET') return showPage;
  if (method === 'HEAD') return { ...showPage, name: headObject.name } as AnyOperation;
  const fields = { Method: method, ResourceType: 'OBJECT' };
  throw new Refusal('MethodNotAllowed', { fields, headers: { allow: 'GET, HEAD' } });
}

/** What a request comes to: the key that it asks for by then, a redirection, or a refusal. */
type Outcome =
  | { kind: 'object'; status: number | null }
  | { kind: 'redirect'; status: number; location: string }
  | { kind: 'refusal'; refusal: Refusal };

const showPage = {
  ...getObject,
  admit: findOutcome,
  run: async (context: Reserved<'object'>, _input: unknown, outcome: Outcome): Promise<Reply> => {
    if (outcome.kind === 'refusal') throw outcome.refusal;
    if (outcome.kind === 'redirect') {
      return { status: outcome.status, headers: { location: outcome.location }, body: null };
    }
    const reply = await getObject.run(context);
    // Each bucket has a host of its own, so its pages may be what they are.
    delete reply.headers['content-security-policy'];
    return outcome.status === null ? reply : { ...reply, status: outcome.status };
  },
} as Operation<'object', void, Outcome> as AnyOperation;

async function findOutcome(asked: Asked<'object'>): Promise<Outcome> {
  const site = await findSite(asked);
  const path = asked.request.key ?? '';
  if ('redirectAll' in site) return redirect(asked, path, site.redirectAll);
  const before = path === '' ? undefined : findRule(site, path, null);
  if (before) return followRule(asked, before, path);
  const isFolder = path === '' || path.endsWith('/');
  const found = await look(asked, isFolder ? path + site.index : path);
  if (!(found instanceof Refusal)) return show(asked, found, null);
  if (!isFolder) {
    const inside = await look(asked, `${path}/${site.index}`);
    if (!(inside instanceof Refusal)) {
      return { kind: 'redirect', status: 302, location: pathOf(`${path}/`) };
    }
  }
  return tell(asked, site, path, found);
}

/** Throws `Refusal` NoSuchBucket, or NoSuchWebsiteConfiguration to who may list the bucket. */
async function findSite(asked: Asked<'object'>): Promise<Website> {
  const { services, found, askedName } = asked;
  const fields = { BucketName: askedName };
  const bucket = found && !found.at && found.where === undefined ? found.bucket : undefined;
  const site = bucket && (await services.websites.find(bucket.id));
  if (site) return site;
  const place = { askedName, found, key: null, listPrefix: '' };
  const isKnown = bucket !== undefined && (await asked.mayReach({ action: listing, ...place }));
  if (isKnown) throw new Refusal('NoSuchWebsiteConfiguration', { fields });
  if (found) await services.buckets.levelRefusal(found.tenant, found.name);
  throw new Refusal('NoSuchBucket', { fields });
}

const listing = 's3:ListBucket';

/** What everybody may read under a key, or why nothing. */
async function look(asked: Asked<'object'>, key: string): Promise<Version | Refusal> {
  const { services, bucket, askedName, found } = asked;
  const mayRead = await asked.mayReachKey('s3:GetObject', { key });
  const missing = await asked.missingKey({ askedName, found, key });
  if (!bucket || (!mayRead && missing.code === 'AccessDenied')) return missing;
  const version = await findCurrent(services, bucket, key);
  if (!version) return missing;
  return mayRead ? version : new Refusal('AccessDenied');
}

/** `status`: of the answer; null: as of any read. */
async function show(
  asked: Asked<'object'>,
  version: Version,
  status: number | null,
): Promise<Outcome> {
  const location = redirectOf(version);
  if (location !== undefined) {
    return { kind: 'redirect', status: 301, location: inHeader(location) };
  }
  const { request } = asked;
  const { key } = version;
  // A document that tells of a refusal is not what the conditions are about.
  asked.turnTo(
    status === null ? { ...request, key } : { ...request, key, headers: only(request, kept) },
  );
  await asked.authorizeKey('s3:GetObject');
  return { kind: 'object', status };
}

/** A refusal, as the website's rules and its document have it. */
async function tell(
  asked: Asked<'object'>,
  site: ServedSite,
  path: string,
  refusal: Refusal,
): Promise<Outcome> {
  const rule = findRule(site, path, refusal.status);
  if (rule) return followRule(asked, rule, path);
  const document = site.error === undefined ? null : await look(asked, site.error);
  if (document && !(document instanceof Refusal)) return show(asked, document, refusal.status);
  const told = document ? new UntoldRefusal(refusal, document) : refusal;
  // Nothing is charged, and nothing recorded, of who may do nothing.
  if (refusal.code === 'AccessDenied') throw told;
  return { kind: 'refusal', refusal: told };
}

function followRule(asked: Asked<'object'>, rule: RoutingRule, path: string): Outcome {
  return redirect(asked, ruledKey(rule, path), rule.redirect);
}

/** What is not said of the new address is as of the request's. */
function redirect(
  { request }: Asked<'object'>,
  key: string,
  { protocol, host, status = 301 }: Pick<Redirect, 'protocol' | 'host' | 'status'>,
): Outcome {
  const scheme = protocol ?? (request.isSecure ? 'https' : 'http');
  const location = `${scheme}://${host ?? request.headers.host}${pathOf(key)}`;
  return { kind: 'redirect', status, location };
}

/** The path of a key. One that begins with a slash would begin the name of a host. */
function pathOf(key: string): string {
  return `/${percentEncode(key, true).replace(/^\/+/, (slashes) => '%2F'.repeat(slashes.length))}`;
}

/** As it was stored, which is byte for byte as it was sent; without what no URL has. */
function inHeader(location: string): string {
  return location.replace(/[^\x21-\x7e]/g, (one) => {
    const isByte = one <= '\xff';
    return isByte ? encodeByte(one.charCodeAt(0)) : percentEncode(one, false);
  });
}

function encodeByte(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}
