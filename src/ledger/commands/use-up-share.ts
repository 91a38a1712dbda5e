// Counts a share link as used up. Only restores do this, where nobody knows any more how often it
// was used.
import { unchanged } from '../../catalog/outcome.ts';
import type { Command } from './command.ts';

export interface UseUpShare {
  kind: 'useUpShare';
  id: string;
}

export const useUpShare: Command<UseUpShare> = {
  apply: async (tx, { id }) => {
    await tx.run("UPDATE tokens SET uses = uses_max WHERE id = ? AND kind = 'share'", id);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: null,
  // How often a share link was used is read from the database each time.
  causes: null,
};
