// `bursar clock`: the clock that records and windows of limits go by.
import type { Command } from 'commander';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';

type Clock = Answers['GetClock'];

export function addClockCommands(program: Command): void {
  const clock = program
    .command('clock')
    .description("the clock that records and limits go by, and steps of the system's");
  clock
    .command('show')
    .description("say what time it is to the gateway, and whether the system's clock has stepped")
    .action((_given: object, command: Command) => run(command, 'GET', ['clock']));
  clock
    .command('confirm')
    .description("say that the system's clock is right: it is followed from now on")
    .action((_given: object, command: Command) => {
      return run(command, 'POST', ['clock', 'confirmations']);
    });
}

async function run(command: Command, method: 'GET' | 'POST', path: string[]): Promise<void> {
  const { connection, flags } = connect(command);
  const { json } = await callApi(connection, { method, path });
  if (flags.json) {
    printJson(json);
    return;
  }
  const { time, systemTime, stepMs } = json as Clock;
  print(`${time}: records and limits go by this`);
  if (stepMs === 0) print("the system's clock is followed");
  else print(`${systemTime}: the system's clock, ${stepMs / 1000} s from it, is not followed`);
}
