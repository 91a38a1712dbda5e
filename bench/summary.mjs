// What a run shows first: each goal of the gateway, and whether it was reached.
import { table } from './markdown.mjs';

/**
 * @typedef {object} Goal a least ratio of throughput
 * @property {string} title of the workload
 * @property {string} beside what it is divided by
 * @property {number} least
 * @property {number} ratio as it was measured
 * @property {string} text the ratio, and how sure it is
 */

/**
 * The goals of the sections that were measured, as Markdown; nothing where none has any.
 * @param {import('./report.mjs').Outcome[]} outcomes
 */
export function formatSummary(outcomes) {
  const goals = outcomes.flatMap(({ section, measured }) =>
    ((measured && section.goals?.(measured)) ?? []).map((goal) => ({ section, ...goal })),
  );
  if (goals.length === 0) return [];
  const reached = goals.filter(({ ratio, least }) => ratio >= least).length;
  return [
    '## Goals',
    '',
    `${reached} reached, ${goals.length - reached} missed. Each is a throughput divided by ` +
      'another of the same run; the',
    'sections below say how it was measured.',
    '',
    ...table({
      head: ['Where', 'Workload', 'beside', 'goal', 'measured', ''],
      rows: goals.map(({ section, title, beside, least, ratio, text }) => [
        ...[section.title, title, beside, `${least}×`, text],
        ratio >= least ? 'reached' : '**MISSED**',
      ]),
    }),
  ];
}
