// How S3 clients come in: a request that is signed in its headers or its query, or bears a token; a
// form of which a policy is signed; or one without credentials.
import type { Authenticator } from '../../authz/authenticate.ts';
import { unsignedPayloadOf } from '../../authz/bearer.ts';
import { anonymousIn, type Identity } from '../../authz/identity.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { Refusal } from '../../core/errors.ts';
import { defaultTenant } from '../../core/principal.ts';
import { tellOrigin } from '../http/cross-origin.ts';
import type { Exchange } from '../http/exchange.ts';
import { describeInXml } from '../http/reply.ts';
import type { RequestServices } from '../services.ts';
import { postObject } from './operations/post-object.ts';
import type { Entrance } from './pipeline.ts';
import { enterForm, isPostForm } from './post-form.ts';
import { takeQueryHeaders } from './query-headers.ts';
import { parseRequest, type S3Request } from './request.ts';
import { findOperation } from './routes.ts';
import type { Identified } from './stages.ts';

export function s3Entrance(services: RequestServices, authenticator: Authenticator): Entrance {
  return {
    enter: (exchange) => {
      const request = parseRequest(exchange.raw, exchange, services.domains);
      exchange.clock.enter('authenticate');
      const identifying = identify(authenticator, request, exchange);
      if (request.headers.origin === undefined) return identifying;
      return tellOriginAfter(identifying, services, authenticator, { request, exchange });
    },
    describeRefusal: describeInXml,
  };
}

/** Tells a page's browser whether it may read the answer, whatever that is. */
async function tellOriginAfter(
  identifying: Promise<Identified>,
  services: RequestServices,
  authenticator: Authenticator,
  { request, exchange }: { request: S3Request; exchange: Exchange },
): Promise<Identified> {
  const { response, clock } = exchange;
  let who: Identity | null = null;
  try {
    const entered = await identifying;
    who = entered.who;
    return entered;
  } finally {
    clock.enter('decide');
    const tenant = who === null || who.isAnonymous ? null : who.principal.tenant;
    await tellOrigin(services, authenticator, { request, response, tenant });
  }
}

async function identify(
  authenticator: Authenticator,
  request: S3Request,
  exchange: Exchange,
): Promise<Identified> {
  if (request.method === 'POST' && isPostForm(request)) {
    const entered = await enterForm(authenticator, request, exchange);
    return { ...entered, findOperation: () => postObject };
  }
  try {
    const who = (await authenticator.authenticate(request)) ?? {
      ...anonymousIn(defaultTenant),
      payload: unsignedPayloadOf(request),
    };
    const renew = (atMs: number) => authenticator.renew(request, who, atMs);
    const entered: Identified = { request, who, refused: null, findOperation, renew };
    return request.query.length === 0 ? entered : takeFromQuery(entered);
  } catch (error) {
    if (!(error instanceof RefusedUse)) throw error;
    return { request, who: error.who, refused: error, findOperation, renew: () => refuse(error) };
  }
}

/** What the query says in place of headers is judged once it is known who said it. */
function takeFromQuery(entered: Identified): Identified {
  const { request, who } = entered;
  try {
    return { ...entered, request: takeQueryHeaders(request, who.presigned) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { ...entered, refused: error };
  }
}

async function refuse(error: RefusedUse): Promise<never> {
  throw error;
}
