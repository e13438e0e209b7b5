/** Routes of the gateway itself, below `/_sluice/`. */
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { RequestTarget } from '../../http/request/target.ts'
import { createProblem, createProblemResponse } from '../../http/response/problem.ts'
import { readBearerToken } from './auth.ts'

/** Protects answers from caches and from being read as something else. */
export const HEADERS = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

/** @returns undefined for an unknown target */
export type RouteHandler = (
  request: Request,
  target: RequestTarget,
  context: CallContext,
) => Promise<Response | undefined>

/** Makes routes for who has a token of its own, each for its methods. @param variable the one that holds the token */
export function createGuard(isToken: (text: string) => boolean, variable: string, realm: string) {
  const unauthorized = createProblem('unauthorized', 401, `Missing or invalid ${variable} (Authorization: Bearer).`, {
    headers: { 'WWW-Authenticate': `Bearer realm="${realm}"` },
  })
  return function guard<Rest extends readonly unknown[]>(
    methods: readonly string[],
    handle: (request: Request, ...rest: Rest) => Promise<Response | undefined>,
  ) {
    const wrongMethod = createProblem('method_not_allowed', 405, `Method not allowed; use ${methods[0]}.`, {
      headers: { Allow: methods.join(', ') },
    })
    return async (request: Request, ...rest: Rest) => {
      if (!isToken(readBearerToken(request) ?? '')) return createProblemResponse(unauthorized)
      return methods.includes(request.method) ? handle(request, ...rest) : createProblemResponse(wrongMethod)
    }
  }
}
