// Who pays for reads of a bucket, besides who reads (docs/admin/charges.md).

export const readPayers = ['owner', 'requester', 'tenant'] as const;
export type ReadPayer = (typeof readPayers)[number];
