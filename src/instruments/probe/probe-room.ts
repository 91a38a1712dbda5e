// What the series of a probe share.
import type { Content } from './content.ts';
import type { LineOptions } from './probe-line.ts';
import type { ProbeObjects } from './probe-objects.ts';
import type { TransferRoom } from './transfer.ts';

export interface ProbeRoom extends TransferRoom {
  content: Content;
  objects: ProbeObjects;
  line: LineOptions;
}
