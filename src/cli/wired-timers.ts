// What the ledger is told to do as time goes by. Each function starts it, and gives what ends it.
import type { Rooms } from '../gateway/rooms.ts';
import { FoldTimer } from '../ledger/fold-timer.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { StorageTimer } from '../ledger/storage-timer.ts';

const foldIntervalMs = 5000;

export function startFoldTimer(ledger: Pick<Ledger, 'keepHouse'>): () => Promise<void> {
  const timer = new FoldTimer({
    ledger,
    intervalMs: foldIntervalMs,
    onError: told('public reads were not recorded'),
  });
  timer.start();
  return () => timer.close();
}

export function startStorageTimer({ ledger, stores, bookOf }: Rooms): () => Promise<void> {
  const timer = new StorageTimer({
    ledger,
    books: () => {
      const configured = stores.all().filter(({ isConfigured }) => isConfigured);
      return new Map(configured.map(({ number }) => [number, bookOf(number).name]));
    },
    onError: told('storage was not charged'),
  });
  timer.start();
  return () => timer.stop();
}

function told(what: string): (error: unknown) => void {
  return (error) => process.stderr.write(`bursar: ${what}: ${String(error)}\n`);
}
