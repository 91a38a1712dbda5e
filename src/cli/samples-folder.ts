// Where the samples of a gateway are, as far as what a command was given shows it. Invariant:
// `bursar probe` writes, and `bursar report` reads, where the gateway whose keys they were given
// keeps its own.
import { existsSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { dataFiles } from '../server/folder/data-folder.ts';
import { readClientEnvironment } from '../server/settings/config.ts';

interface PlaceFlags {
  data?: string | undefined;
  credentials?: string | undefined;
}

/** Those of the named data folder; else of that which has the credentials; else of the usual. */
export function findSamplesFolder({ data, credentials }: PlaceFlags): string {
  const environment = readClientEnvironment();
  const file = credentials ?? environment.credentialsFile;
  const folder = data ?? (file === undefined ? undefined : dataFolderOf(file)) ?? environment.data;
  return dataFiles(folder).samplesFolder;
}

/** The data folder that a gateway wrote a credentials file to; undefined: it is somewhere else. */
function dataFolderOf(file: string): string | undefined {
  const folder = dirname(resolve(file));
  const { credentialsFile, databaseFile } = dataFiles(folder);
  return basename(file) === basename(credentialsFile) && existsSync(databaseFile)
    ? folder
    : undefined;
}
