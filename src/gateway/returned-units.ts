/** One chunk, loaded if a policy can release units, or refuse one request and not the next. */
export { withRefusalLimit } from '../engine/refusal-limit.ts'
export { holdUntilEnd } from '../http/hold-until-end.ts'
