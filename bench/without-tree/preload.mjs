// Preloaded into a gateway by bench/log.mjs: records are kept without a tree above them.
import { register } from 'node:module';

register(new URL('../replace-modules.mjs', import.meta.url), {
  data: {
    folder: new URL('.', import.meta.url).href,
    modules: {
      '/dist/audit/record-log.js': './record-log.mjs',
      '/dist/ledger/log-signing.js': './log-signing.mjs',
    },
  },
});
