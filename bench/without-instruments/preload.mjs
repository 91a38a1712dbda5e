// Preloaded into a gateway by bench/instruments.mjs: requests are not timed, and nobody is told of them.
import { register } from 'node:module';

register(new URL('../replace-modules.mjs', import.meta.url), {
  data: {
    folder: new URL('.', import.meta.url).href,
    modules: {
      '/dist/instruments/instruments.js': './instruments.mjs',
      '/dist/instruments/stage-clock.js': './stage-clock.mjs',
    },
  },
});
