// Native API: verifying stored data, one slice after the other. Invariant: the gateway keeps no
// state between two slices. The cursor that clients send back says only where the next one begins;
// whose data may be verified is decided anew for each.
import { findBucket } from '../../catalog/buckets.ts';
import type { ScrubScope } from '../../catalog/scrub.ts';
import { Refusal } from '../../core/errors.ts';
import { isCount, parseJson } from '../../core/json.ts';
import { readUsage, sumStored } from '../../quota/usage.ts';
import type { Finding, VerifyPosition } from '../data-verifier.ts';
import { type Call, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  closedObject,
  integer,
  integerOrNull,
  type Json,
  name,
  text,
  textOrNull,
} from './schemas.ts';

const MiB = 1024 * 1024;
const bytesMaxDefault = 64 * MiB;
const cursorLengthMax = 16_384;

const finding = answerObject({
  tenant: { type: 'string' },
  bucket: { type: 'string' },
  key: { type: 'string' },
  seq: integerOrNull('Of a version: the index of its record.'),
  uploadId: textOrNull('Of a part of an unfinished upload.'),
  partNumber: { type: ['integer', 'null'] },
  kind: text('What failed: `row`, or of an extent `missing`, `length` or `chunk`.'),
  lost: boolean('It is in no store any more, as its class allows, and is recorded as lost.'),
  message: { type: 'string' },
});

const verifyBodySchema = closedObject({
  tenant: { ...name, description: 'Of this tenant only.' },
  bucket: text("A bucket of this tenant; without one, of the caller's.", {
    minLength: 1,
    maxLength: 63,
  }),
  prefix: text('Of object keys.', { default: '', maxLength: 1024 }),
  cursor: text('Of the slice before, whose other members were the same.', {
    maxLength: cursorLengthMax,
  }),
  bytesMax: integer('The slice ends with the chunk that reaches so many bytes of objects.', {
    minimum: 1,
    maximum: 1024 * MiB,
    default: bytesMaxDefault,
  }),
});
type VerifyBody = Json<typeof verifyBodySchema>;

export const verifyRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/verifications',
    action: 'bursar:VerifyData',
    isReading: true,
    summary:
      'Verify a slice of the stored data that the caller administers: some two seconds of it. ' +
      'The next slice begins at `cursor`, until it is null.',
    body: verifyBodySchema,
    answer: answerObject({
      cursor: textOrNull('Where the next slice begins.'),
      versions: integer('Versions and parts finished in this slice.'),
      bytes: integer('Bytes of objects read in this slice.'),
      findings: { type: 'array', items: finding },
      estimate: {
        type: ['object', 'null'],
        description: 'What there is to verify, by the usage counters; null where they do not say.',
        required: ['versions', 'bytes'],
        properties: { versions: { type: 'integer' }, bytes: { type: 'integer' } },
      },
    }),
    run: async (call) => {
      const { prefix, cursor, bytesMax } = call.body as VerifyBody;
      const scope = await findScope(call);
      const position = cursor === undefined ? null : decodeCursor(cursor);
      const slice = await call.deps.verifier.verify({ scope, position, bytesMax });
      return {
        findings: slice.findings,
        answer: {
          cursor: slice.position && encodeCursor(slice.position),
          versions: slice.rows,
          bytes: slice.bytes,
          findings: slice.findings.map(show),
          estimate: prefix === '' ? await estimate(call, scope) : null,
        },
      };
    },
  },
]);

/**
 * What is to be verified, as far as the caller may see it. Throws `Refusal` NoSuchTenant or
 * NoSuchBucket.
 */
async function findScope({ who, reach, body, deps }: Call): Promise<ScrubScope> {
  const { prefix, bucket = null, ...asked } = body as VerifyBody;
  const isWhole = reach === 'all' && bucket === null;
  const tenant = asked.tenant ?? (isWhole ? null : who.tenant);
  if (tenant !== null) {
    const isVisible = reach === 'all' || tenant === who.tenant;
    if (!isVisible || !(await deps.directory.readTenant(tenant))) throw new Refusal('NoSuchTenant');
    if (bucket !== null && !(await findBucket(deps.read, tenant, bucket))) {
      throw new Refusal('NoSuchBucket');
    }
  }
  return { tenant, bucket, prefix };
}

async function estimate({ deps }: Call, { tenant, bucket }: ScrubScope): Promise<object> {
  const account = bucket === null ? `tenant:${tenant}` : `bucket:${tenant}/${bucket}`;
  const { storedObjects, storedBytes } =
    tenant === null ? await sumStored(deps.read) : await readUsage(deps.read, account);
  return { versions: storedObjects, bytes: storedBytes };
}

function show({ bucket, place, error, isLost }: Finding): object {
  const isPart = 'uploadId' in place;
  return {
    tenant: bucket.tenant,
    bucket: bucket.name,
    key: place.key,
    seq: isPart ? null : place.seq,
    uploadId: isPart ? place.uploadId : null,
    partNumber: isPart ? place.number : null,
    kind: error.kind,
    lost: isLost,
    message: error.message,
  };
}

/**
 * A cursor: in base64url, a JSON array of a bucket's id, a key, then the `seq` of a version or the
 * upload id and number of a part, and an offset.
 */
function encodeCursor({ place, offsetBytes }: VerifyPosition): string {
  const { bucketId, key } = place;
  const row = 'uploadId' in place ? [place.uploadId, place.number] : [place.seq];
  return Buffer.from(JSON.stringify([bucketId, key, ...row, offsetBytes])).toString('base64url');
}

/** Throws `Refusal` InvalidInput for what is no cursor. */
function decodeCursor(cursor: string): VerifyPosition {
  const members = parseArray(Buffer.from(cursor, 'base64url').toString());
  const [bucketId, key, row, number] = members;
  const offsetBytes = members.at(-1);
  if (
    isCount(bucketId) &&
    typeof key === 'string' &&
    (offsetBytes === null || isCount(offsetBytes))
  ) {
    if (members.length === 4 && isCount(row)) {
      return { place: { bucketId, key, seq: row }, offsetBytes };
    }
    if (members.length === 5 && typeof row === 'string' && isCount(number)) {
      return { place: { bucketId, key, uploadId: row, number }, offsetBytes };
    }
  }
  const message = 'body.cursor is not one that a slice answered';
  throw new Refusal('InvalidInput', { message, fields: { field: 'body.cursor' } });
}

function parseArray(text: string): unknown[] {
  const parsed = parseJson(text);
  return Array.isArray(parsed) ? parsed : [];
}

// Comparing the whole database with the audit records, for operators. Invariant: there is one run
// at a time, in a thread of its own. It goes on when the one who began it has gone, and whoever
// asks again is told of the same run.

/** The progress and the outcome of a run. */
export interface DeepRunState {
  isRunning: boolean;
  /** How many records were compared so far. */
  records: number;
  /** How many differences were found, and the first of them. */
  found: number;
  differences: { where: string; what: string }[];
  /** Once the run is done, what was compared; null until then. */
  summary: object | null;
  /** Why the run ended early; null where it did not. */
  failure: string | null;
}

export interface DeepRuns {
  /** Begins a run, unless one is under way. */
  begin(): void;
  /** Ends the run that is under way; the next one goes on where it was. */
  stop(): Promise<void>;
  /** The state of the run under way, or else of the last one. */
  read(): DeepRunState;
}

const url = '/_/v1/deep-verification';

const answer = answerObject({
  isRunning: { type: 'boolean' },
  records: integer('Records that were compared.'),
  found: integer('Differences that were found.'),
  differences: {
    type: 'array',
    description: 'From the one that is asked for on, at most 100; of all the first 1,000 are kept.',
    items: answerObject({ where: { type: 'string' }, what: { type: 'string' } }),
  },
  summary: {
    type: ['object', 'null'],
    additionalProperties: true,
    description: 'What was compared, as `bursar verify deep --json` says; null before the end.',
  },
  failure: textOrNull('Why it could not be finished.'),
});

const differencesMax = 100;

export const deepRoutes = routeTable([
  {
    method: 'POST',
    url,
    action: 'bursar:VerifyData',
    operation: 'BeginDeepVerification',
    isReading: true,
    summary:
      'Have the gateway compare its database with its records, in a thread of its own; for ' +
      'operators. One that is under way goes on, and one that was interrupted goes on where ' +
      'it was.',
    answer,
    run: async (call) => {
      checkOperator(call);
      call.deps.deepRuns.begin();
      return { answer: showRun(call, 0) };
    },
  },
  {
    method: 'GET',
    url,
    action: 'bursar:VerifyData',
    operation: 'GetDeepVerification',
    summary: 'Show how far the comparison is, and what it has found.',
    query: {
      from: {
        type: 'string',
        pattern: '^\\d{1,4}$',
        default: '0',
        description: 'The first difference wanted.',
      },
    },
    answer,
    run: async (call) => {
      checkOperator(call);
      return { answer: showRun(call, Number(call.query.from ?? 0)) };
    },
  },
  {
    method: 'DELETE',
    url,
    action: 'bursar:VerifyData',
    operation: 'StopDeepVerification',
    summary: 'Stop the comparison that is under way; the next one goes on where it was.',
    answer,
    run: async (call) => {
      checkOperator(call);
      await call.deps.deepRuns.stop();
      return { answer: showRun(call, 0) };
    },
  },
]);

/** Throws `Refusal` AccessDenied to others than operators: the comparison is about all tenants. */
function checkOperator({ reach }: Call): void {
  if (reach !== 'all') throw new Refusal('AccessDenied');
}

function showRun({ deps }: Call, from: number): DeepRunState {
  const state = deps.deepRuns.read();
  return { ...state, differences: state.differences.slice(from, from + differencesMax) };
}
