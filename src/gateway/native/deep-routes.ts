// Native API: comparing the gateway's whole database with its records, for operators. Invariant: it
// is done by one run at a time, in a thread of its own, which goes on whoever asks for it; so who
// asks again is told of the same run.
import { Refusal } from '../../core/errors.ts';
import type { Call, NativeRoute } from './route.ts';
import { answerObject, integer, textOrNull } from './schemas.ts';

/** How far a run is. */
export interface DeepRunState {
  isRunning: boolean;
  /** Records that were compared. */
  records: number;
  /** How many were found, and the first of them. */
  found: number;
  differences: { where: string; what: string }[];
  /** What was compared, when it is done; null: it is not. */
  summary: object | null;
  /** Why it ended early; null: it did not. */
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

export const deepRoutes: NativeRoute[] = [
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
      return { answer: show(call, 0) };
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
      return { answer: show(call, Number(call.query.from ?? 0)) };
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
      return { answer: show(call, 0) };
    },
  },
];

/** The comparison is about all tenants. */
function checkOperator({ reach }: Call): void {
  if (reach !== 'all') throw new Refusal('AccessDenied');
}

function show({ deps }: Call, from: number): DeepRunState {
  const state = deps.deepRuns.read();
  return { ...state, differences: state.differences.slice(from, from + differencesMax) };
}
