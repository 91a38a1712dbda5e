#!/usr/bin/env node
// The `bursar` command for members, admins and auditors, which is packaged without the server.
import { addRows, clientTables } from './client-table.ts';
import { run } from './program.ts';

await run((program, word) => addRows(program, clientTables, word));
