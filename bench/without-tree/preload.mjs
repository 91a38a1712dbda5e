// Preloaded into a gateway by bench/log-path.mjs: has it load two modules of ours in the place of its
// own, so that records are kept without a tree above them. Nothing in the gateway itself can do that.
import { register } from 'node:module';

register(new URL('./hooks.mjs', import.meta.url));
