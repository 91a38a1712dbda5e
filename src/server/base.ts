// What every part of the server is made with.
import type { Closers } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import type { OpenInstruments } from './instruments.ts';
import type { Config } from './settings/config.ts';

export interface Base extends OpenInstruments {
  config: Config;
  folder: DataFolder;
  closers: Closers;
}
