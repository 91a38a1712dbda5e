// What comparisons read of a record. Invariant: a member that is given has the type that it is said
// to have, whatever somebody wrote into the database. Pure.
import { isObject } from '../../core/json.ts';

export interface Difference {
  /** What differs from what it should be: `record 12`, `tile 0/3`, `checkpoint of 900 records`. */
  where: string;
  what: string;
}

/** What a record says of itself. */
export interface RecordFields {
  accessKeyId?: string;
  action: string;
  amends?: { attributes: string; version: number };
  bucket?: string;
  bucketOwner?: string;
  payer?: string;
  bucketTenant?: string;
  change?: Record<string, unknown>;
  class?: string;
  configures?: { bucket: number; settings: string };
  error?: string;
  etag?: string;
  evidenceAt?: number;
  evidenceHash?: string;
  index: number;
  key?: string;
  limits?: Record<string, unknown>;
  marker?: boolean;
  principal: string;
  sha256?: string;
  size?: number;
  source?: string;
  status: number;
  supersedes?: number;
  target?: string;
  tenant: string;
  time: string;
  version?: number;
  versionId?: string;
}

type Kind = 'text' | 'number' | 'boolean' | 'object' | Record<string, 'text' | 'number'>;

const needed = ['action', 'index', 'principal', 'status', 'tenant', 'time'] as const;

const kinds: Record<keyof RecordFields, Kind> = {
  accessKeyId: 'text',
  action: 'text',
  amends: { attributes: 'text', version: 'number' },
  bucket: 'text',
  bucketOwner: 'text',
  bucketTenant: 'text',
  change: 'object',
  class: 'text',
  configures: { bucket: 'number', settings: 'text' },
  error: 'text',
  etag: 'text',
  evidenceAt: 'number',
  evidenceHash: 'text',
  index: 'number',
  key: 'text',
  limits: 'object',
  marker: 'boolean',
  payer: 'text',
  principal: 'text',
  sha256: 'text',
  size: 'number',
  source: 'text',
  status: 'number',
  supersedes: 'number',
  target: 'text',
  tenant: 'text',
  time: 'text',
  version: 'number',
  versionId: 'text',
};

/** undefined: it is not the record of anything. */
export function readFields(value: unknown): RecordFields | undefined {
  if (!isObject(value)) return undefined;
  if (needed.some((name) => value[name] === undefined)) return undefined;
  const isRight = Object.entries(kinds).every(
    ([name, kind]) => value[name] === undefined || isOf(value[name], kind),
  );
  if (!isRight || Number.isNaN(Date.parse(value.time as string))) return undefined;
  return value as unknown as RecordFields;
}

/**
 * Returns whether the recorded operation happened. The record of a refusal says what would have
 * been changed.
 */
export function isDone({ error, status }: RecordFields): boolean {
  return error === undefined && status < 400;
}

function isOf(value: unknown, kind: Kind): boolean {
  if (typeof kind === 'object') {
    return isObject(value) && Object.entries(kind).every(([name, one]) => isOf(value[name], one));
  }
  switch (kind) {
    case 'text':
      return typeof value === 'string';
    case 'number':
      return Number.isSafeInteger(value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'object':
      return isObject(value);
  }
}

/** The version that a record has moved into its class; null: none. */
export function movedIn({ action, change, error }: RecordFields): number | null {
  const moved = change?.moved;
  if (action !== 'bursar:MoveObject' || error !== undefined || !isObject(moved)) return null;
  return typeof moved.version === 'number' ? moved.version : null;
}
