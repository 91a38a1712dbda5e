// Preloaded into a gateway by bench/instruments.mjs: while it serves, how far its requests are
// measured changes all the time; what it did in each period is told through a socket of its own.
import { createServer } from 'node:http';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';
import { Periods } from './periods.mjs';

register(new URL('../replace-modules.mjs', import.meta.url), {
  data: {
    folder: new URL('.', import.meta.url).href,
    modules: { '/dist/instruments/instruments.js': './instruments.mjs' },
  },
});

if (isMainThread) {
  let periods;
  const server = createServer((request, response) => {
    if (request.url === '/begin') periods = new Periods();
    response.end(JSON.stringify(request.url === '/end' ? periods.end() : null));
  });
  server.listen(process.env.BENCH_PERIODS_SOCKET).unref();
}
