/**
 * The action of a record that tells a tenant of an erasure which concerns it (erasure-notices.ts).
 */
export const erasureNotice = 'bursar:ErasureNotice';
