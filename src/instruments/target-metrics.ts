// How it goes with those who are told of changes: targets, and who follows the feed. Only the
// operator reads what names tenants and their targets.
import { monotonicMs } from '../core/clock.ts';
import type { MetricRegistry } from './metric-registry.ts';

export interface TargetNumbers {
  tenant: string;
  target: string;
  /** Messages since the start: taken, and not. */
  sent: number;
  failed: number;
  isStuck: boolean;
  /** Changes that it refused for good. */
  deadLetters: number;
  /** Records of the log that it was not told of, whether they concern it or not. */
  behind: number;
  /** Since when the first of them is there, milliseconds; 0: there is none. */
  lagMs: number;
}

export interface TargetSource {
  list(): Promise<readonly TargetNumbers[]>;
  /** Who waits for changes. */
  followers(): number;
}

export function watchTargets(registry: MetricRegistry, source: TargetSource): void {
  const list = atOnce(() => source.list());
  const ofEach = (read: (numbers: TargetNumbers) => number) => async () =>
    (await list()).map((one) => {
      const { tenant, target } = one;
      return [{ tenant, target }, read(one)] as const;
    });
  const isPrivate = true;
  registry.counter({
    ...{ name: 'bursar_target_messages_total', isPrivate },
    help: 'Messages of changes that targets took, since the start.',
    collect: ofEach(({ sent }) => sent),
  });
  registry.counter({
    ...{ name: 'bursar_target_failures_total', isPrivate },
    help: 'Messages of changes that targets did not take, since the start.',
    collect: ofEach(({ failed }) => failed),
  });
  registry.gauge({
    ...{ name: 'bursar_target_behind_records', isPrivate },
    help: 'Records of the log that a target was not told of yet, if they concern it.',
    collect: ofEach(({ behind }) => behind),
  });
  registry.gauge({
    ...{ name: 'bursar_target_lag_seconds', isPrivate },
    help: 'Age of the first record that a target was not told of yet, if it concerns it.',
    collect: ofEach(({ lagMs }) => lagMs / 1000),
  });
  registry.gauge({
    ...{ name: 'bursar_target_stuck', isPrivate },
    help: '1: the target has taken nothing for ten minutes, or has 1,000 dead letters.',
    collect: ofEach(({ isStuck }) => Number(isStuck)),
  });
  registry.gauge({
    ...{ name: 'bursar_target_dead_letters', isPrivate },
    help: 'Changes that a target refused for good.',
    collect: ofEach(({ deadLetters }) => deadLetters),
  });
  registry.gauge({
    name: 'bursar_change_followers',
    help: 'Targets, and calls, that wait for changes now.',
    collect: source.followers,
  });
}

/** Metrics of one text are told one after the other: they share what was counted for the first. */
const sharedMs = 100;

/** What is counted now, or was a moment ago. */
function atOnce<T>(count: () => Promise<T>): () => Promise<T> {
  let counted: { value: Promise<T>; atMs: number } | null = null;
  return () => {
    const nowMs = monotonicMs();
    if (!counted || nowMs - counted.atMs > sharedMs) {
      counted = { value: count(), atMs: nowMs };
      counted.value.catch(() => {
        counted = null;
      });
    }
    return counted.value;
  };
}
