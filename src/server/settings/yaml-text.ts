// YAML, whose parser is loaded when there is a text to be read: it takes longer to load than most
// commands take, and few have one.
import { createRequire } from 'node:module';

type Yaml = typeof import('yaml');

const require = createRequire(import.meta.url);

/** What cannot be understood is among the `errors` of the result. */
export const parseDocument: Yaml['parseDocument'] = (text, options) =>
  (require('yaml') as Yaml).parseDocument(text, options);
