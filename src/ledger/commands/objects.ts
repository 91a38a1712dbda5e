// Commands of objects, their versions, and multipart uploads. Their types, checks and rows are in
// `catalog/`, where they share what becomes of the versions of a key.
import { beginRestore, endRestore, finishRestore } from '../../catalog/archive-restores.ts';
import { repairCopies, suspectCopies } from '../../catalog/extent-copies.ts';
import { loseVersion } from '../../catalog/lost-versions.ts';
import { renameObject } from '../../catalog/rename.ts';
import { restoreVersion } from '../../catalog/restore.ts';
import { restoreAttributes, restoreEnd, restoreMove } from '../../catalog/roll-forward.ts';
import {
  abortUpload,
  completeUpload,
  createUpload,
  putPart,
  type TransferUpload,
  transferUpload,
} from '../../catalog/uploads.ts';
import {
  amendVersion,
  copyObject,
  deleteObject,
  putObject,
} from '../../catalog/version-changes.ts';
import { moveVersion } from '../../catalog/version-moves.ts';
import type { Command } from './command.ts';

/**
 * A command of what a bucket holds: it takes no rights away, the catalog's outbox tells journals of
 * it, and requests look an object up each time.
 */
function ofContents<C>(apply: Command<C>['apply']): Command<C> {
  return { apply, takesFrom: null, told: null, account: null, causes: null };
}

/** Who began it may list and abort it by that alone. */
const transfer: Command<TransferUpload> = {
  ...ofContents(transferUpload),
  takesFrom: ({ from }) => `principal:${from}`,
  account: ({ id, from, to }) => ({ id, from, to }),
};

export const objectCommands = {
  putObject: ofContents(putObject),
  copyObject: ofContents(copyObject),
  renameObject: ofContents(renameObject),
  deleteObject: ofContents(deleteObject),
  amendVersion: ofContents(amendVersion),
  createUpload: ofContents(createUpload),
  putPart: ofContents(putPart),
  completeUpload: ofContents(completeUpload),
  abortUpload: ofContents(abortUpload),
  transferUpload: transfer,
  // What became of copies of extents, which no object is another by.
  suspectCopies: ofContents(suspectCopies),
  repairCopies: ofContents(repairCopies),
  loseVersion: ofContents(loseVersion),
  recoverVersion: ofContents(loseVersion),
  moveVersion: ofContents(moveVersion),
  beginRestore: ofContents(beginRestore),
  finishRestore: ofContents(finishRestore),
  endRestore: ofContents(endRestore),
  // Only rebuilds and restores put these back, of what a journal or an extent tells.
  restoreVersion: ofContents(restoreVersion),
  restoreAttributes: ofContents(restoreAttributes),
  restoreEnd: ofContents(restoreEnd),
  restoreMove: ofContents(restoreMove),
};
