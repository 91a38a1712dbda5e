// How queries for objects come in: `/_/v1/tenants/TENANT/buckets/BUCKET/objects`, where the bucket
// is named as S3 clients name it. From there on they go the way of every S3 request, as what they
// are: a listing, with its rights, its price, its limits and its record.
import type { Authenticator } from '../../authz/authenticate.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import { Refusal } from '../../core/errors.ts';
import { describeInProblem } from '../native/problem.ts';
import type { Entrance } from '../s3/pipeline.ts';
import { parseRequest, type S3Request } from '../s3/request.ts';
import { findObjectsIn } from './find-operation.ts';

const form = /^\/_\/v1\/tenants\/([^/]+)\/buckets\/([^/]+)\/objects$/;

export function findEntrance(authenticator: Authenticator): Entrance {
  return {
    enter: async (exchange) => {
      const asked = parseRequest(exchange.raw, exchange, []);
      const [, tenant = '', bucket = ''] = form.exec(asked.path) ?? [];
      exchange.clock.enter('authenticate');
      const named = (own: string): S3Request => {
        // Names of one's own count in one's own tenant.
        const bucketName = tenant === own ? bucket : `${tenant}:${bucket}`;
        return { ...asked, bucketName, key: null };
      };
      const findOperation = () => findObjectsIn;
      try {
        const who = await authenticator.authenticate(asked);
        if (who === null) throw new Refusal('AccessDenied');
        const renew = (atMs: number) => authenticator.renew(asked, who, atMs);
        const request = named(who.principal.tenant);
        return { request, who, refused: null, findOperation, renew };
      } catch (error) {
        if (!(error instanceof RefusedUse)) throw error;
        const { who } = error;
        const renew = () => Promise.reject(error);
        return { request: named(who.principal.tenant), who, refused: error, findOperation, renew };
      }
    },
    describeRefusal: describeInProblem,
  };
}
