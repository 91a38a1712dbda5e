#!/usr/bin/env node
// The `bursar` command of a checkout, which serves, too.
import { quietenSdk } from '../server/settings/config.ts';
import { addCommands } from './command-table.ts';
import { run } from './program.ts';

quietenSdk();
await run(addCommands);
