// What listings tell of restores from archives, where a client asks for that: of each entry in a
// class that is read after a restore, whether it is on its way, or until when it can be read.
// Specification: ListObjectsV2 of the Amazon S3 API reference.
import { listRestores } from '../../../catalog/restore-rows.ts';
import type { Version } from '../../../catalog/versions.ts';
import { s3Time } from '../../../core/clock.ts';
import { invalidArgument } from '../../../core/errors.ts';
import { steadyClock } from '../../../core/steady-clock.ts';
import type { XmlElements } from '../../http/xml.ts';
import type { Reserved } from '../stages.ts';
import { isArchived } from './restored.ts';

const header = 'x-amz-optional-object-attributes';

export class ListedRestores {
  readonly #context: Reserved<'listing'>;
  readonly #isAsked: boolean;
  /** By number of the version. */
  readonly #entries = new Map<number, XmlElements>();

  /** Throws `Refusal` InvalidArgument where something else is asked for. */
  constructor(context: Reserved<'listing'>) {
    this.#context = context;
    const asked = context.request.headers[header];
    this.#isAsked = asked !== undefined;
    for (const name of asked?.split(',') ?? []) {
      if (name.trim() === 'RestoreStatus') continue;
      throw invalidArgument(header, asked ?? '', 'Invalid attribute name specified.');
    }
  }

  /** Notes an entry of a page, and gives it. */
  note(version: Pick<Version, 'class' | 'seq'>, entry: XmlElements): XmlElements {
    const { services, bucket } = this.#context;
    if (this.#isAsked && isArchived(services, bucket, version)) {
      this.#entries.set(version.seq, entry);
    }
    return entry;
  }

  /** To be called when the page is there. */
  async tell(): Promise<void> {
    if (this.#entries.size === 0) return;
    const nowMs = steadyClock.nowMs();
    const found = await listRestores(this.#context.services.read, [...this.#entries.keys()]);
    for (const { seq, expiresMs } of found) {
      if (expiresMs !== null && expiresMs <= nowMs) continue;
      const entry = this.#entries.get(seq);
      if (!entry) continue;
      entry.RestoreStatus = {
        IsRestoreInProgress: expiresMs === null,
        ...(expiresMs !== null && { RestoreExpiryDate: s3Time(expiresMs) }),
      };
    }
  }
}
