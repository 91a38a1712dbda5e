// A share link whose uses nobody knows any more opens nothing. Only restores do this.
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
  // How often share links were used is read each time.
  causes: null,
};
