// Native API: the state of the audit log, for people. What verifiers need of it is public, at
// `/_/log/`.
import { isSigning, type LogKeyRow, listLogKeys } from '../../audit/log/log-keys.ts';
import { renderVerifier } from '../../audit/log/note.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { signerOf } from '../../ledger/log-signing.ts';
import type { NativeDeps } from './deps.ts';
import { param, refuseDelegated, routeTable } from './route.ts';
import {
  answerObject,
  integer,
  integerOrNull,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';

const key = answerObject({
  id: text('As signatures have it, hex.'),
  verifier: text('As `/_/log/key` has it.'),
  state: text(
    'active: signs. overlap: signs beside its successor, until `retiredAt`. retired: signs no ' +
      'more; what it signed counts. revoked: nothing that it signed is to be believed.',
    { enum: ['active', 'overlap', 'retired', 'revoked'] },
  ),
  createdAt: time,
  fromSize: integer('No shorter log was signed with it.'),
  retiredAt: timeOrNull,
  revokedAt: timeOrNull,
});

const witness = answerObject({
  name: { type: 'string' },
  url: { type: 'string' },
  cosignedSize: integerOrNull('Records of the newest checkpoint that it cosigned; null: none.'),
  cosignedAt: timeOrNull,
  problem: textOrNull('Why it did not cosign when it was last asked; null: it did.'),
});

const keys = { type: 'array', items: key } as const;

export const logRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/log',
    action: 'bursar:GetLog',
    summary: 'Show the state of the audit log: what of it is signed, and with which keys.',
    answer: answerObject({
      origin: textOrNull('null: it is not signed.'),
      refusal: textOrNull('Why it is not signed, and nothing is written; null: it is.'),
      witnesses: { type: 'array', items: witness },
      size: integer('Records that are signed for.'),
      root: textOrNull('base64'),
      keys,
    }),
    run: async ({ deps }) => ({ answer: await showLog(deps) }),
  },
  {
    method: 'GET',
    url: '/_/v1/log/keys',
    action: 'bursar:GetLog',
    operation: 'ListLogKeys',
    summary: 'List the keys that the audit log was ever signed with, newest first.',
    answer: answerObject({ keys }),
    run: async ({ deps }) => ({ answer: { keys: await showLogKeys(deps) } }),
  },
]);

async function showLog(deps: NativeDeps): Promise<object> {
  const { checkpoint } = deps.log;
  return {
    origin: checkpoint?.origin ?? null,
    size: checkpoint?.size ?? 0,
    root: checkpoint?.root.toString('base64') ?? null,
    refusal: deps.log.refusal,
    witnesses: deps.witnesses.state(),
    keys: await showLogKeys(deps),
  };
}

export async function showLogKeys({ read }: NativeDeps): Promise<object[]> {
  const now = nowMs();
  return (await listLogKeys(read)).map((row) => ({
    id: row.key.id,
    verifier: renderVerifier(row.key),
    state: stateOf(row, now),
    createdAt: isoTime(row.createdMs),
    fromSize: row.fromSize,
    retiredAt: row.retiredMs && isoTime(row.retiredMs),
    revokedAt: row.revokedMs && isoTime(row.revokedMs),
  }));
}

function stateOf(row: LogKeyRow, now: number): string {
  if (row.revokedMs !== null) return 'revoked';
  if (!isSigning(row, now)) return 'retired';
  return row.retiredMs === null ? 'active' : 'overlap';
}

// Native API: another key for the audit log, and the end of one. Invariants: a new key is durable
// in its file before the ledger is told of it, and both are records of the log that they sign; no
// answer and no record has a private key.

const overlapSecondsMax = 366 * 24 * 3600;

export const logKeyRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/log/keys/rotations',
    action: 'bursar:RotateLogKey',
    summary:
      'Sign the audit log with a new key. Until the overlap has passed those of before sign too; ' +
      'what they signed counts for good.',
    status: 201,
    body: {
      type: 'object',
      additionalProperties: false,
      required: ['overlapSeconds'],
      properties: {
        overlapSeconds: { type: 'integer', minimum: 0, maximum: overlapSecondsMax },
      },
    },
    answer: answerObject({
      id: text('As signatures have it, hex.'),
      verifier: text('As `/_/log/key` has it.'),
      retiresAt: { ...time, description: 'When those of before sign no more.' },
    }),
    run: async (call) => {
      refuseDelegated(call);
      const { log, logKeys } = call.deps;
      const { checkpoint } = log;
      if (!checkpoint) {
        throw new Refusal('ServiceUnavailable', { message: 'The log is not signed.' });
      }
      const { overlapSeconds } = call.body as { overlapSeconds: number };
      const retireMs = nowMs() + overlapSeconds * 1000;
      const key = await logKeys.add(checkpoint.origin);
      const { key: added } = signerOf(key);
      const { id } = added;
      return {
        change: { kind: 'rotateLogKey', key, retireMs },
        target: `log/keys/${id}`,
        answer: async () => {
          return { id, verifier: renderVerifier(added), retiresAt: isoTime(retireMs) };
        },
      };
    },
  },
  {
    method: 'DELETE',
    url: '/_/v1/log/keys/:id',
    action: 'bursar:RevokeLogKey',
    summary:
      'Revoke a key of the audit log: nothing that it signed is to be believed. 409 for the ' +
      'newest key: rotate first.',
    run: async (call) => {
      refuseDelegated(call);
      const id = param(call, 'id');
      return {
        change: { kind: 'revokeLogKey', id },
        answer: async () => {
          call.deps.logKeys.remove(id);
          return null;
        },
      };
    },
  },
]);
