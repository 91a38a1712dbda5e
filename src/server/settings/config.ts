// Where settings come from: a flag, else the environment, else the YAML file, else the default. The
// only file that reads the environment. Invariant: nothing that is given and not understood is
// passed over: an unknown key, an unknown BURSAR_ variable and a bad value name themselves and stop
// the start.
import { readFileSync } from 'node:fs';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { flagOf, type Setting, variableOf } from './setting.ts';
import { type Config, settings } from './settings.ts';
import { chooseStores } from './store-settings.ts';
import { chooseTracing, type TracingChoice } from './tracing-settings.ts';
import { parseDocument } from './yaml-text.ts';

export type { Config } from './settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Flags as given, by setting; a flag that may repeat holds its values joined by commas. */
export type Flags = Readonly<Partial<Record<keyof Config, string>>>;

const all = Object.entries(settings) as [keyof Config, Setting<unknown>][];

/** Variables that are not settings of the server. */
const otherVariables = new Set([
  'BURSAR_ENDPOINT',
  'BURSAR_ACCESS_KEY_ID',
  'BURSAR_SECRET_ACCESS_KEY',
  'BURSAR_CREDENTIALS',
  'BURSAR_PROFILE',
  'BURSAR_FUZZ_SECONDS',
]);

/** The settings to serve with. Throws `CommandFailure` (usage) that names what does not fit. */
export function loadConfig(flags: Flags, environment: Environment = process.env): Config {
  refuseUnknownVariables(environment);
  const file = readConfigFile(
    flags.config ?? (environment[variableOf(settings.config)] || undefined),
  );
  const config: Record<string, unknown> = {};
  for (const [property, one] of all) {
    const variable = variableOf(one);
    // An empty variable is how compose files and shells write "not set".
    const given = [
      parseGiven(one, flagOf(one), flags[property]),
      parseGiven(one, variable, environment[variable] || undefined),
      parseGiven(one, `${file.name}: ${one.key}`, file.values.get(one.key)),
    ];
    const fallback = one.default === undefined ? undefined : one.parse(one.default);
    config[property] = given.find((value) => value !== undefined) ?? fallback;
  }
  const complete = config as Config;
  if ((complete.rootAccessKey === undefined) !== (complete.rootSecretKey === undefined)) {
    const names = [settings.rootAccessKey, settings.rootSecretKey].map(variableOf);
    throw new CommandFailure('usage', `${names.join(' and ')} must be given both or not at all`);
  }
  const { kmsKey, kmsRegion, kmsEndpoint } = complete;
  if (kmsKey === undefined && (kmsRegion ?? kmsEndpoint) !== undefined) {
    throw new CommandFailure('usage', `${flagOf(settings.kmsKey)} is missing`);
  }
  chooseStores(complete);
  return complete;
}

/** The data folder where none is named. */
export const dataDefault = settings.data.default as string;

/** What an administration command may find in the environment. */
export interface ClientEnvironment {
  endpoint: string | undefined;
  accessKeyId: string | undefined;
  secretAccessKey: string | undefined;
  credentialsFile: string | undefined;
  profile: string | undefined;
  /** Folder of the server's data, where its credentials file is. */
  data: string;
  /** A folder with price books besides those that are shipped. */
  priceBooks: string | undefined;
}

/** Throws `CommandFailure` (usage) on a BURSAR_ variable that does not exist. */
export function readClientEnvironment(environment: Environment = process.env): ClientEnvironment {
  refuseUnknownVariables(environment);
  return {
    endpoint: environment.BURSAR_ENDPOINT || undefined,
    accessKeyId: environment.BURSAR_ACCESS_KEY_ID || undefined,
    secretAccessKey: environment.BURSAR_SECRET_ACCESS_KEY || undefined,
    credentialsFile: environment.BURSAR_CREDENTIALS || undefined,
    profile: environment.BURSAR_PROFILE || undefined,
    data: environment.BURSAR_DATA || dataDefault,
    priceBooks: environment[variableOf(settings.priceBooks)] || undefined,
  };
}

/** What AWS's clients find in the environment. */
export function readAwsEnvironment(environment: Environment = process.env) {
  return {
    accessKeyId: environment.AWS_ACCESS_KEY_ID || undefined,
    secretAccessKey: environment.AWS_SECRET_ACCESS_KEY || undefined,
    sessionToken: environment.AWS_SESSION_TOKEN || undefined,
    configFile: environment.AWS_CONFIG_FILE || undefined,
    credentialsFile: environment.AWS_SHARED_CREDENTIALS_FILE || undefined,
    endpoint: environment.AWS_ENDPOINT_URL_S3 || environment.AWS_ENDPOINT_URL || undefined,
    ignoresEndpoints: environment.AWS_IGNORE_CONFIGURED_ENDPOINT_URLS === 'true',
    profile: environment.AWS_PROFILE || undefined,
    region: environment.AWS_REGION || environment.AWS_DEFAULT_REGION || undefined,
  };
}

/** What a command of somebody else's is told of the environment: nothing that may be secret. */
export function readCommandEnvironment(environment: Environment = process.env) {
  const { PATH = '/usr/bin:/bin', LANG = 'C.UTF-8', TZ = 'UTC' } = environment;
  return { PATH, LANG, TZ };
}

/** Whether and how requests are traced. Throws `CommandFailure` (usage). */
export function readTracing(environment: Environment = process.env): TracingChoice | null {
  return chooseTracing(environment);
}

/**
 * Keeps the AWS SDK from telling who runs the gateway which Node its next year's releases need:
 * package.json says what ours needs, and which release of the SDK that is.
 */
export function quietenSdk(): void {
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
}

function refuseUnknownVariables(environment: Environment): void {
  for (const name of Object.keys(environment)) {
    if (!name.startsWith('BURSAR_') || otherVariables.has(name)) continue;
    if (all.some(([, one]) => variableOf(one) === name)) continue;
    throw new CommandFailure('usage', `unknown environment variable ${name}`);
  }
}

function parseGiven<T>(one: Setting<T>, origin: string, given: string | undefined): T | undefined {
  if (given === undefined) return undefined;
  try {
    return one.parse(given);
  } catch (error) {
    const shown = one.secret ? ' ' : ` ${JSON.stringify(given)} `;
    const message = `${origin}${one.isMapping ? '' : shown}${messageOfFailure(error)}`;
    throw new CommandFailure('usage', message);
  }
}

interface ConfigFile {
  name: string;
  /** Values by key, as text, in the form that a flag would have. */
  values: ReadonlyMap<string, string>;
}

function readConfigFile(name: string | undefined): ConfigFile {
  if (name === undefined) return { name: '', values: new Map() };
  const content = parseYaml(name);
  if (content === null) return { name, values: new Map() };
  if (typeof content !== 'object' || Array.isArray(content)) {
    throw new CommandFailure('usage', `${name}: must hold settings as "key: value" lines`);
  }
  const values = new Map<string, string>();
  for (const [key, value] of Object.entries(content)) {
    const known = all.find(([, one]) => one.key === key && !one.notInFile);
    if (!known) throw new CommandFailure('usage', `${name}: unknown key ${key}`);
    // JSON is YAML: a mapping takes the same way as its text in a variable.
    const isMapping = known[1].isMapping && typeof value === 'object';
    values.set(key, isMapping ? JSON.stringify(value) : textOf(name, key, value));
  }
  return { name, values };
}

function parseYaml(name: string): unknown {
  let source: string;
  try {
    source = readFileSync(name, 'utf8');
  } catch (error) {
    throw new CommandFailure('usage', `cannot read the config file: ${messageOfFailure(error)}`);
  }
  const document = parseDocument(source, { prettyErrors: true });
  const [error] = document.errors;
  if (error) {
    // The parser's message goes on with an excerpt; its first line says what and where.
    const [what] = error.message.split('\n');
    throw new CommandFailure('usage', `${name}: ${what?.replace(/:$/, '')}`);
  }
  try {
    return document.toJS();
  } catch (cause) {
    throw new CommandFailure('usage', `${name}: ${messageOfFailure(cause)}`);
  }
}

/** A scalar as it would be written on the command line; a list joined by commas. */
function textOf(name: string, key: string, value: unknown): string {
  if (Array.isArray(value)) return value.map((item) => textOf(name, key, item)).join(',');
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new CommandFailure('usage', `${name}: ${key} must be a plain value`);
}
