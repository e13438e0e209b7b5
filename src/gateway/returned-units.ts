/** For policies that give units back, or refuse one request and not the next: loaded where there is one. */
export { withRefusalLimit } from '../engine/refusal-limit.ts'
export { holdUntilEnd } from '../http/hold-until-end.ts'
