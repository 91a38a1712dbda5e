// Native API: another key for the audit log, and the end of one. Invariants: a new key is durable
// in its file before the ledger is told of it, and both are records of the log that they sign; no
// answer and no record has a private key.
import { renderVerifier } from '../../audit/log/note.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { signerOf } from '../../ledger/log-signing.ts';
import { type NativeRoute, param, refuseDelegated } from './route.ts';
import { answerObject, text, time } from './schemas.ts';

const overlapSecondsMax = 366 * 24 * 3600;

export const logKeyRoutes: NativeRoute[] = [
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
];
