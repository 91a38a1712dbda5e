// How S3 clients come in: a request that is signed in its headers or its query, or bears a token; a
// form of which a policy is signed; or one without credentials.
import type { ServerResponse } from 'node:http';
import type { Authenticator } from '../authz/authenticate.ts';
import { unsignedPayloadOf } from '../authz/bearer.ts';
import { anonymousIn, type Identity } from '../authz/identity.ts';
import { defaultTenant } from '../authz/identity-changes.ts';
import { RefusedUse } from '../authz/refused-use.ts';
import { tellOrigin } from './cross-origin.ts';
import { postObject } from './operations/post-object.ts';
import type { Entered, Entrance } from './pipeline.ts';
import { enterForm, isPostForm } from './post-form.ts';
import { describeInXml } from './reply.ts';
import { parseRequest, type S3Request } from './request.ts';
import type { Rooms } from './rooms.ts';
import { findOperation } from './routes.ts';

export function s3Entrance(rooms: Rooms, authenticator: Authenticator): Entrance {
  return {
    enter: async (raw, begun, response) => {
      const request = parseRequest(raw, begun, rooms.domains);
      if (request.headers.origin === undefined) return identify(authenticator, request, response);
      let who: Identity | null = null;
      try {
        const entered = await identify(authenticator, request, response);
        who = entered.who;
        return entered;
      } finally {
        const tenant = who === null || who.isAnonymous ? null : who.principal.tenant;
        await tellOrigin(rooms, authenticator, { request, response, tenant });
      }
    },
    describeRefusal: describeInXml,
  };
}

async function identify(
  authenticator: Authenticator,
  request: S3Request,
  response: ServerResponse,
): Promise<Entered> {
  if (isPostForm(request)) {
    const entered = await enterForm(authenticator, request, response);
    return { ...entered, findOperation: () => postObject };
  }
  try {
    const who = (await authenticator.authenticate(request)) ?? {
      ...anonymousIn(defaultTenant),
      payload: unsignedPayloadOf(request),
    };
    return { request, who, refused: null, findOperation };
  } catch (error) {
    if (!(error instanceof RefusedUse)) throw error;
    return { request, who: error.who, refused: error, findOperation };
  }
}
