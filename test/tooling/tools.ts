// The programs of others that tests drive: found by environment variable, else on PATH.
// A missing one is a loud skip on a developer's machine and a failing test where CI=true, so that
// nothing passes on CI by not having run.
import { type ExecFileOptions, execFile, execFileSync } from 'node:child_process';
import { accessSync, constants, mkdtempSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe, it } from 'vitest';

export interface Tool {
  name: string;
  /** The variable that names its path. */
  variable: string;
  /** Undefined where it is not installed. Sought when it is first asked for. */
  readonly path: string | undefined;
}

/** The variables that name tools. */
export const toolVariables = new Set<string>();

export const awsCli = findTool('AWS CLI', 'AWS_CLI', 'aws');
export const rclone = findTool('rclone', 'RCLONE', 'rclone');
export const chromium = findTool('Chromium', 'CHROMIUM', 'chromium');
export const versitygw = findTool('versitygw', 'VERSITYGW', 'versitygw');
/** Built from test/interop. */
export const goVerifiers = findTool('Go verifiers', 'GO_VERIFIERS', 'bursar-interop');
export const litewitness = findTool('litewitness', 'LITEWITNESS', 'litewitness');
export const motoPython = withModules(findTool('moto', 'MOTO_PYTHON', 'python3'), ['moto.server']);
export const s3cmd = findTool('s3cmd', 'S3CMD', 's3cmd');
export const restic = findTool('restic', 'RESTIC', 'restic');
export const s5cmd = findTool('s5cmd', 'S5CMD', 's5cmd');
/** With what people use for tables and arrays, and minio-py. */
export const dataPython = withModules(
  findTool('Python with test/clients/requirements.txt', 'DATA_PYTHON', 'python3'),
  ['pyarrow', 'pandas', 's3fs', 'duckdb_extension_httpfs', 'minio', 'obstore'],
);
export const boto3Python = withModules(findTool('boto3', 'BOTO3_PYTHON', 'python3'), ['boto3']);
export const awscrtPython = withModules(findTool('boto3 with awscrt', 'BOTO3_PYTHON', 'python3'), [
  'boto3',
  'awscrt.auth',
]);
export const cryptographyPython = withModules(
  findTool('Python with cryptography', 'CRYPTOGRAPHY_PYTHON', 'python3'),
  ['cryptography'],
);

function findTool(name: string, variable: string, command: string): Tool {
  toolVariables.add(variable);
  const named = process.env[variable];
  if (named !== undefined && named !== '') return { name, variable, path: named };
  const folders = (process.env.PATH ?? '').split(delimiter);
  return { name, variable, path: folders.map((dir) => join(dir, command)).find(isExecutable) };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A Python without one of the modules is as good as none. */
function withModules(python: Tool, modules: string[]): Tool {
  let found: { path: string | undefined } | undefined;
  return {
    name: python.name,
    variable: python.variable,
    get path() {
      found ??= { path: hasModules(python.path, modules) ? python.path : undefined };
      return found.path;
    },
  };
}

/** They are looked for, and not imported: that can take seconds. */
const findModules =
  'import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))';

function hasModules(python: string | undefined, modules: string[]): boolean {
  if (python === undefined) return false;
  try {
    execFileSync(python, ['-c', findModules, ...modules], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Like vitest's `describe`, for tests that cannot run without the tool. */
export function describeWithTool(tool: Tool, title: string, body: (path: string) => void): void {
  const { path } = tool;
  if (path !== undefined) {
    describe(title, () => body(path));
    return;
  }
  const missing = `${tool.name} is missing: set ${tool.variable} or put it on PATH`;
  if (process.env.CI === 'true') {
    describe(title, () => {
      it(`has ${tool.name}`, () => {
        throw new Error(missing);
      });
    });
    return;
  }
  console.warn(`SKIPPED: ${title}: ${missing}`);
  describe.skip(`${title} (${missing})`, () => {
    it('is skipped', () => {});
  });
}

/** Thrown by `runTool`: what the tool said, and how it ended. */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure';
  readonly status: number | undefined;
  readonly output: string;

  constructor(command: string, status: number | undefined, output: string) {
    super(`${command} ended with ${status}:\n${output}`);
    this.status = status;
    this.output = output;
  }
}

/**
 * Runs to the end and resolves with its standard output; throws `ToolFailure` on a status not 0.
 */
export function runTool(path: string, args: string[], env: NodeJS.ProcessEnv): Promise<string> {
  const options: ExecFileOptions = { env, maxBuffer: 64 * 1024 * 1024, timeout: 240_000 };
  return new Promise((resolve, reject) => {
    execFile(path, args, options, (error, stdout, stderr) => {
      if (!error) return resolve(String(stdout));
      const status = typeof error.code === 'number' ? error.code : undefined;
      reject(new ToolFailure(`${path} ${args.join(' ')}`, status, `${stdout}${stderr}`));
    });
  });
}

/**
 * The environment for a client of the gateway: its keys, and a home of its own, where tools keep
 * what they remember of a gateway. Of the person who runs the tests there is nothing left in ours
 * (own-environment.ts).
 */
export function clientEnvironment(keys: {
  accessKeyId: string;
  secretAccessKey: string;
}): NodeJS.ProcessEnv {
  const own = /^BURSAR_/;
  const entries = Object.entries(process.env).filter(([name]) => !own.test(name));
  return {
    ...Object.fromEntries(entries),
    HOME: mkdtempSync(join(homedir(), 'client-')),
    AWS_ACCESS_KEY_ID: keys.accessKeyId,
    AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
    AWS_DEFAULT_REGION: 'us-east-1',
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_PAGER: '',
    NO_PROXY: '*',
    // Scripts that import each other leave nothing in the tree.
    PYTHONDONTWRITEBYTECODE: '1',
  };
}
