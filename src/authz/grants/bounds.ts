// The bounds of grants and policies, so that neither what is stored nor what a decision costs can
// grow without end by what a tenant writes.

const KiB = 1024;

/** S3's bound of a bucket policy. */
export const policyBytesMax = 20 * KiB;
/** STS's bound of a session policy is 2,048 characters; these are its bytes. */
export const sessionPolicyLengthMax = 2048;
export const sessionPolicyBytesMax = 4 * sessionPolicyLengthMax;
/** Patterns with `?` in one policy, together: those are searched for without an index. */
export const unitPatternsLengthMax = KiB;
/** UTF-16 units of a variable's value: senders choose some, and what is searched for costs time. */
export const variableLengthMax = 256;

export const grantSubjectsMax = 100;
export const grantActionsMax = 100;
/** The conditions of one grant, as JSON. */
export const grantConditionsBytesMax = 2 * KiB;
/** Condition operators, and keys below each; and values below each key. */
export const conditionMembersMax = 32;
export const conditionValuesMax = 256;
/** Of one value for `Arn` operators: which colons are a variable's own takes time to tell. */
export const arnLengthMax = 512;

/** The grants of one tenant, as JSON together: a million short ones. */
export const tenantGrantsBytesMax = 128 * KiB * KiB;

/** Grants to one subject in exactly one place: all of them are looked at. */
export const grantsPerPlaceMax = 100;
