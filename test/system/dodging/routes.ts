/** The routes that each API has, and the policies that are to limit them, each by a name of its own. */
export const ROUTES = {
  login: 'POST /login',
  read: 'GET /users/:id',
  remove: 'DELETE /users/:id',
} as const

/** A handler's name, as its API says it in the field X-Handler. */
export type RouteName = keyof typeof ROUTES

export interface Router {
  /** Whether its `:id` stands for nothing as well, so that it serves `/users/` as `/users/:id`. */
  readonly takesNothing: boolean
}

/** The policies of an operator who does as docs/policies.md says about such a router. */
export function listPolicies({ takesNothing }: Router): readonly Readonly<Record<string, unknown>>[] {
  return Object.entries(ROUTES).map(([name, route]) => ({
    name,
    match: takesNothing ? [route, route.replace(/\/:id$/, '')] : [route],
    algorithm: 'fixed-window',
    // Nothing is to be refused: what counts is what was charged.
    limits: '1000000000/1h',
    by: 'global',
  }))
}
