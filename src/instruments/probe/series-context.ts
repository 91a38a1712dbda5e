// What the series of a probe share.
import type { Content } from './content.ts';
import type { LineOptions } from './probe-line.ts';
import type { ProbeObjects } from './probe-objects.ts';
import type { TransferContext } from './transfer.ts';

export interface SeriesContext extends TransferContext {
  content: Content;
  objects: ProbeObjects;
  line: LineOptions;
}
