/** Serves the dashboard and its sessions. */
import * as v from 'valibot'
import { createProblemResponse, type Problem } from '../../../http/response/problem.ts'
import { type AdminAuth, CROSS_ORIGIN, END_OF_SESSION, isSameOrigin } from '../../api/auth.ts'
import { OperationError } from '../../api/operation.ts'
import { readInput, readJson } from '../../api/read-input.ts'
import { HEADERS } from '../../api/route.ts'

const login = v.strictObject({ token: v.string() })
/** No token is as long: anybody may send one. */
const MAX_LOGIN_BYTES = 4 * 1024

/** Allows only its own script, style and API: nothing that a caller has written somewhere can run. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

/** @param name below `/_sluice/`; empty for the page itself @returns undefined if there is nothing of this name */
export async function serve(name: string, request: Request, auth: AdminAuth): Promise<Response | undefined> {
  if (request.method === 'POST' && (name === 'login' || name === 'logout')) {
    if (!isSameOrigin(request)) return createProblemResponse(CROSS_ORIGIN)
    if (name === 'logout') return new Response(null, { status: 204, headers: { 'Set-Cookie': END_OF_SESSION } })
    let token: string | undefined
    let problem: Problem | undefined
    try {
      token = readInput(login, await readJson(request, MAX_LOGIN_BYTES)).token
    } catch (error) {
      if (!(error instanceof OperationError)) throw error
      problem = error.problem
    }
    // What is no login is an attempt, too.
    const refused = auth.checkToken(request, token)
    if (refused?.status === 401 && problem) return createProblemResponse(problem)
    if (refused) return createProblemResponse(refused)
    return new Response(null, { status: 204, headers: { 'Set-Cookie': auth.createSession(), ...HEADERS } })
  }
  if (!/^(?:GET|HEAD)$/.test(request.method)) return undefined
  const { FILES } = await import('./files.ts')
  const file = Object.hasOwn(FILES, name) ? FILES[name as keyof typeof FILES] : undefined
  if (!file) return undefined
  const { type, etag, text } = file
  const headers = {
    'Content-Type': type,
    'Content-Security-Policy': CONTENT_SECURITY_POLICY,
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-cache',
    ETag: etag,
  }
  if (request.headers.get('If-None-Match')?.includes(etag)) return new Response(null, { status: 304, headers })
  return new Response(request.method === 'HEAD' ? null : text, { headers })
}
