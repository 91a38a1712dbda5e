// The token library for programs of others: `import { delegate } from 'bursar/tokens'`. What it
// does is written down in docs/formats/token.md.
export type { Refusal } from '../../core/errors.ts';
export type { Limits } from '../../core/quota-terms.ts';
export type { Chain, ChainOptions, FindIssuerKey, Issuer, IssuerClaim } from './chain.ts';
export { verifyChain as verify } from './chain.ts';
export type { Conditions } from './conditions.ts';
export { type DelegateRequest, delegate } from './delegate.ts';
export { describeReport } from './describe.ts';
export {
  type InspectOptions,
  inspect,
  type LinkReport,
  type TokenReport,
} from './inspect.ts';
export { type IssueRequest, issueToken as issue, type MadeToken } from './issue.ts';
export { createKeyProof, type KeyProofSubject, verifyKeyProof } from './key-proof.ts';
export {
  type Algorithm,
  generatePrivateKey,
  type PrivateKey,
  type PublicJwk,
  type PublicKey,
  readPrivateKey,
  readPublicKey,
  renderPrivateKey,
} from './keys.ts';
export { NonceStore } from './nonce-store.ts';
export { createProof, type Proof, type ProofRequest, verifyProof } from './proof.ts';
export type { RequestDescription } from './request-description.ts';
export { parseScope, renderScope, type Scope, type ScopeEntry } from './scope.ts';
