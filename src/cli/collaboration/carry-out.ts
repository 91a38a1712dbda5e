// Does what a plan says: kind by kind, many at once. Invariant: what was done is told, whatever
// becomes of the rest, and a second run goes on with what is left.
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import { ApiRefusal, callApi, Unreachable } from '../api-client.ts';
import { refusedBy, S3Bucket, type S3Connection } from '../s3-bucket.ts';
import { ownNameOf, tenantOf } from './entries.ts';
import { forEach } from './many.ts';
import { requestsOf, type Step } from './plan.ts';

export interface Outcome {
  done: Step[];
  failed: (Step & { reason: string })[];
  /** Why the rest was not begun; null: all was. */
  stopped: string | null;
}

export interface Doer {
  connection: S3Connection;
  self: Answers['WhoAmI'];
}

/** Never rejects with what a gateway answers. `onDone` is told how many are done. */
export async function carryOut(
  steps: readonly Step[],
  doer: Doer,
  onDone: (count: number) => void,
): Promise<Outcome> {
  const outcome: Outcome = { done: [], failed: [], stopped: null };
  const done = new Set<Step>();
  const work = async (step: Step): Promise<void> => {
    try {
      await carryOutOne(step, doer);
      done.add(step);
      onDone(done.size);
    } catch (error) {
      if (error instanceof Unreachable || !(error instanceof CommandFailure)) throw error;
      outcome.failed.push({ ...step, reason: messageOfFailure(error) });
    }
  };
  try {
    // What is of one kind and action does not need one another.
    for (const together of runsOf(steps)) await forEach(together, work);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    outcome.stopped = messageOfFailure(error);
  }
  // In the order of the plan, whichever of those that were done at once was answered first.
  outcome.done = steps.filter((step) => done.has(step));
  return outcome;
}

function runsOf(steps: readonly Step[]): Step[][] {
  const runs: Step[][] = [];
  for (const step of steps) {
    const [before] = runs.at(-1) ?? [];
    const isDeletion = step.action === 'delete';
    if (before?.kind === step.kind && (before.action === 'delete') === isDeletion) {
      (runs.at(-1) as Step[]).push(step);
    } else runs.push([step]);
  }
  return runs;
}

async function carryOutOne(step: Step, doer: Doer): Promise<void> {
  if (step.kind === 'bucket') return setBucket(step, doer);
  for (const request of requestsOf(step)) {
    try {
      await callApi(doer.connection, request);
    } catch (error) {
      // It went meanwhile.
      const isGone = error instanceof ApiRefusal && error.status === 404;
      if (step.action !== 'delete' || !isGone) throw error;
    }
  }
}

async function setBucket({ action, name, value, changes }: Step, doer: Doer): Promise<void> {
  const { connection, self } = doer;
  const [tenant, bucket] = [tenantOf({ kind: 'bucket', name }), ownNameOf({ name })];
  const path = ['tenants', tenant, 'buckets', bucket];
  if (action === 'create') await createBucket(tenant, bucket, doer);
  for (const member of changes) {
    const said = value[member] ?? null;
    if (member === 'recordReads' || (member === 'readsPaidBy' && said !== null)) {
      await callApi(connection, { method: 'PATCH', path, body: { [member]: said } });
    } else if (member === 'undeleteSeconds') {
      const of = [...path, 'undelete'];
      if (said) await callApi(connection, { method: 'PUT', path: of, body: { seconds: said } });
      else if (action === 'set') await callApi(connection, { method: 'DELETE', path: of });
    } else if (said !== null && (action === 'set' || said !== self.principal)) {
      await callApi(connection, { method: 'PUT', path: [...path, 'owner'], body: { owner: said } });
    }
  }
}

/** S3 makes buckets in the tenant of who asks, and only there. */
async function createBucket(tenant: string, bucket: string, doer: Doer): Promise<void> {
  const { connection, self } = doer;
  if (self.tenant !== tenant) {
    const reason = `a bucket of ${tenant} is made with a key of ${tenant}, such as its admin's`;
    throw new CommandFailure('failed', reason);
  }
  const { status, text } = await new S3Bucket(connection, bucket).ask('PUT', '');
  if (status >= 300) throw refusedBy(text, status);
}
