// `bursar clock`: the clock that records and windows of limits go by.
import type { Command } from 'commander';
import { calling } from './api-command.ts';
import type { Answers } from './api-types.ts';
import { print } from './output.ts';

export function addClockCommands(program: Command): void {
  const clock = program
    .command('clock')
    .description("the clock that records and limits go by, and steps of the system's");
  clock
    .command('show')
    .description("say what time it is to the gateway, and whether the system's clock has stepped")
    .action(calling(() => ({ method: 'GET', path: ['clock'] }), show));
  clock
    .command('confirm')
    .description("say that the system's clock is right: it is followed from now on")
    .action(calling(() => ({ method: 'POST', path: ['clock', 'confirmations'] }), show));
}

function show({ time, systemTime, stepMs }: Answers['GetClock']): void {
  print(`${time}: records and limits go by this`);
  if (stepMs === 0) print("the system's clock is followed");
  else print(`${systemTime}: the system's clock, ${stepMs / 1000} s from it, is not followed`);
}
