// What a folder store asks of the file system, as plain data between threads: each call is done as
// a whole by one thread, which a disk or a file server may keep for as long as it likes.

/** Of a file that is written whole, under a temporary name first. */
export interface PutCall {
  do: 'put';
  /** The store's own folder, which is not made. */
  root: string;
  temporary: string;
  file: string;
  pieces: readonly Uint8Array[];
  /** Whether a file that is there is left as it is. */
  ifAbsent: boolean;
}

export type FileCall =
  | PutCall
  /** Gives null where there is none. */
  | { do: 'open'; file: string }
  /** Into the thread's scratch memory: at most `scratchBytes`. */
  | { do: 'read'; descriptor: number; position: number; length: number }
  | { do: 'close'; descriptor: number }
  /** All of it; gives null where there is none. */
  | { do: 'take'; file: string }
  /** One that is absent is fine. */
  | { do: 'remove'; file: string }
  /** Gives null where there is no such folder. */
  | { do: 'list'; folder: string }
  /** Makes a folder in one that is there; one that is there already is fine. */
  | { do: 'make'; folder: string }
  /** What is in it and was written before that time, in ms since 1970. */
  | { do: 'clear'; folder: string; beforeMs: number }
  /** The room that is left, in bytes. */
  | { do: 'room'; folder: string };

export interface OpenedFile {
  descriptor: number;
  sizeBytes: number;
}

export interface FolderEntry {
  name: string;
  isFolder: boolean;
  /** 0 of a folder. */
  sizeBytes: number;
}

/** What each call gives. */
export interface CallResults {
  put: 'stored' | 'exists';
  open: OpenedFile | null;
  /** Bytes that were read: fewer than asked for at the end of the file only. */
  read: number;
  close: null;
  take: Uint8Array | null;
  remove: null;
  list: FolderEntry[] | null;
  make: null;
  clear: null;
  room: number;
}

/** The name of an error is lost between threads: its system's code is told besides. */
export type CallReply =
  | { result: CallResults[keyof CallResults] }
  | { message: string; code: string | undefined };

/** Begins with words that both threads see; then comes the scratch memory. */
export const words = {
  /** Grows whenever something has moved. */
  moved: 0,
  /** 1: nobody waits for the call any more, so it shall change nothing that others can see. */
  abandoned: 1,
} as const;
export const wordsBytes = 8;
export const scratchBytes = 1024 * 1024;
